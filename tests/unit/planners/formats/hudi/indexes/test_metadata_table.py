"""The backlog of the metadata table that Hudi keeps below `.hoodie`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.indexes.metadata_table import archive_deletion_order, deletion_order
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.timeline import instant_time
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.ports import FileEntry
from tests.support.hudi.hudi_look import made, seen
from tests.support.hudi.hudi_table import HudiTable


class MetadataTable:
    """The timeline of a table's metadata table, written as its writer would."""

    def __init__(self, table: HudiTable) -> None:
        home = table.home / "metadata/.hoodie"
        self.table, self.timeline = table, home / "timeline" if table.version >= 8 else home
        self.timeline.mkdir(parents=True)

    def commit(self, time: str, action: str = "deltacommit") -> None:
        """Complete an instant of the metadata table."""
        completed = f"_{instant_time(self.table.clock.now(), self.table.zone)}" if self.table.version >= 8 else ""
        (self.timeline / f"{time}{completed}.{action}").touch()


@pytest.fixture(params=[6, 8, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    """Make a table of each version that keeps a metadata table."""
    return made(tmp_path, version=request.param, properties={"hoodie.table.metadata.partitions": "files"})


@pytest.fixture
def metadata(table: HudiTable) -> MetadataTable:
    """Make the metadata table of that table."""
    return MetadataTable(table)


def test_delta_commits_since_its_last_compaction_are_counted(table: HudiTable, metadata: MetadataTable) -> None:
    """In layout 1 its compaction is named after the commit that it follows, with three more digits."""
    for _ in range(3):
        metadata.commit(table.write({}))
    [backlog] = seen(table).inner
    assert backlog is not None
    assert (backlog.commits, backlog.since, backlog.pinned_by) == (3, None, None)

    last = seen(table).timeline.instants[-1].time
    metadata.commit(f"{last}001" if table.version < 8 else table.next_time(), "commit")
    metadata.commit(table.write({}))
    [backlog] = seen(table).inner
    assert backlog is not None
    assert backlog.commits == 1
    assert backlog.since is not None
    assert abs((table.clock.now() - backlog.since).total_seconds()) < 5


def test_below_version_8_any_older_pending_instant_pins_it(tmp_path: Path) -> None:
    """Hudi does not compact it then; on later versions a pending plan does no harm."""
    for version in (6, 9):
        table = made(tmp_path / str(version), version=version, properties={"hoodie.table.metadata.partitions": "files"})
        metadata = MetadataTable(table)
        metadata.commit(table.write({}))
        plan = table.plan_compaction()
        [backlog] = seen(table).inner
        assert backlog is not None
        assert backlog.pinned_by is None
        metadata.commit(table.write({}))
        [backlog] = seen(table).inner
        assert backlog is not None
        assert backlog.pinned_by == (f"compaction {plan}" if version == 6 else None)


def test_an_instant_that_it_has_and_the_table_has_not_pins_it(table: HudiTable, metadata: MetadataTable) -> None:
    """It is compacted up to that instant, and no further."""
    metadata.commit(table.write({}))
    write = table.begin_write()
    metadata.commit(write)
    [backlog] = seen(table).inner
    assert backlog is not None
    assert backlog.pinned_by == f"deltacommit {write}"


def test_a_table_without_one_has_no_backlog_of_it(tmp_path: Path) -> None:
    """This holds if the properties name none, and if it is missing."""
    table = made(tmp_path)
    MetadataTable(table).commit(table.write({}))
    assert seen(table).inner == ()
    assert seen(made(tmp_path / "other", properties={"hoodie.table.metadata.partitions": "files"})).inner == ()


def test_a_metadata_table_that_is_named_and_gone_holds_back_every_service_but_its_rebuild(table: HudiTable) -> None:
    """Hudi would fail after it has begun, and leave instants in flight that nothing finishes."""
    table.write({})
    (gone,) = (one for one in seen(table).blockers if "name a metadata table" in one.reason)
    assert ".hoodie/metadata is gone" in gone.reason
    assert "metadata_rebuild" in gone.remedy
    assert gone.services == frozenset(Service) - {Service.METADATA_REBUILD, Service.METADATA_VALIDATION}
    MetadataTable(table).commit(table.write({}))
    assert not [one for one in seen(table).blockers if "name a metadata table" in one.reason]


def lacking(table: HudiTable) -> list[str]:
    """Return what is held back because the metadata table lacks commits."""
    return [one.reason for one in seen(table).blockers if "the metadata table lacks" in one.reason]


def test_a_commit_that_the_metadata_table_does_not_know_holds_back_every_service(tmp_path: Path) -> None:
    """Its readers miss what the commit wrote: 18 of 21 rows after a clustering by a client without metadata table."""
    table = made(tmp_path, properties={"hoodie.table.metadata.partitions": "files"})
    table.write({})  # before the metadata table was made
    metadata = MetadataTable(table)
    begun = table.begin_write()
    metadata.commit("00000000000000000")
    metadata.commit(table.write({}))
    assert lacking(table) == []
    table.commit_write(begun)  # older than all of it, but completed by a client that does not know of it
    metadata.commit(table.write({}))
    assert len(lacking(table)) == 1
    assert f"lacks 1 commits of the table, the first of them {begun}" in lacking(table)[0]


def test_what_the_metadata_table_has_archived_is_not_missed(table: HudiTable, metadata: MetadataTable) -> None:
    """Nothing is missed below version 8 either, where its compaction may stand for many commits."""
    begun = table.begin_write()
    archived = table.write({})
    metadata.commit(table.write({}))
    table.commit_write(begun)
    metadata.commit(table.begin_write())  # which the table does not have yet
    assert lacking(table) == []
    assert archived < metadata.table.write({})
    assert bool(lacking(table)) is (table.version >= 8)


_TIMES = st.sampled_from([f"2026010100000000{n}" for n in range(4)])
_FILES = st.builds(
    lambda time, action, state: f"{time}{'_20260102000000000' if not state else ''}.{action}{state}",
    _TIMES,
    st.sampled_from(["deltacommit", "compaction"]),
    st.sampled_from(["", ".inflight", ".requested"]),
).map(lambda name: name.replace(".compaction", ".commit") if name.count(".") == 1 else name)


@given(st.sets(_FILES))
def test_a_timeline_that_is_half_deleted_shows_nothing_as_pending_that_was_not(names: set[str]) -> None:
    """The deletion may be killed at any point. A client that makes a metadata table over the remains executes what
    seems to be pending there.
    """
    entries = [FileEntry(name=name, size=1, modified=datetime(2026, 1, 1, tzinfo=UTC)) for name in sorted(names)]

    def pending(left: Collection[FileEntry]) -> set[tuple[str, Action]]:
        return {(one.time, one.action) for one in collapse(left, Layout.V2) if one.state is not State.COMPLETED}

    order = deletion_order(entries, Layout.V2)
    assert sorted(order) == sorted(names)
    before = {time for time, _ in pending(entries)}
    for gone in range(len(order) + 1):
        left = [entry for entry in entries if entry.name not in order[:gone]]
        assert {time for time, _ in pending(left)} <= before


def test_what_says_what_is_archived_goes_from_the_oldest_to_the_newest() -> None:
    """The newest that is left is believed, and names files that are still there."""
    names = ["_version_", "00_01_0.parquet", "manifest_10", "manifest_2", "manifest_9"]
    entries = [FileEntry(name=name, size=1, modified=datetime(2026, 1, 1, tzinfo=UTC)) for name in names]
    assert archive_deletion_order(entries) == ["_version_", "manifest_2", "manifest_9", "manifest_10"]
