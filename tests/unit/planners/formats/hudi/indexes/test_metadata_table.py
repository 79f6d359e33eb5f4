"""The backlog of the metadata table that Hudi keeps below `.hoodie`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.history import CompletedInstants
from lakewarden.planners.formats.hudi.indexes.metadata_table import (
    Committed,
    Differences,
    archive_deletion_order,
    deletion_order,
    differences,
    left_out,
    named,
)
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
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
    assert (backlog.commits, backlog.since, backlog.pinned_by) == (3, None, None)

    last = seen(table).timeline.instants[-1].time
    metadata.commit(f"{last}001" if table.version < 8 else table.next_time(), "commit")
    metadata.commit(table.write({}))
    [backlog] = seen(table).inner
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
        assert backlog.pinned_by is None
        metadata.commit(table.write({}))
        [backlog] = seen(table).inner
        assert backlog.pinned_by == (f"compaction {plan}" if version == 6 else None)


def test_an_instant_that_it_has_and_the_table_has_not_pins_it(table: HudiTable, metadata: MetadataTable) -> None:
    """It is compacted up to that instant, and no further."""
    metadata.commit(table.write({}))
    write = table.begin_write()
    metadata.commit(write)
    [backlog] = seen(table).inner
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


# The files that the metadata table lists, and the files in a table's folders.

OLD, DONE, AT_WORK = "20260101000000000", "20260301000000000", "20260302000000000"
COMMITTED = Committed(instants=CompletedInstants(times={DONE: DONE}, before=DONE))


def base(instant: str) -> str:
    return f"0b1c-0_0-12-34_{instant}.parquet"


def log(instant: str) -> str:
    return f".0b1c-0_{instant}.log.1_0-12-34"


_names = st.sampled_from([make(time) for make in (base, log) for time in (OLD, DONE, AT_WORK)])
_folders = st.dictionaries(st.sampled_from(["", "p0", "p1"]), st.frozensets(_names))


@pytest.mark.parametrize("make", [base, log])
def test_what_is_part_of_the_table_and_unknown_to_the_metadata_table_is_named(make: object) -> None:
    """Its commit is on the timeline, or archived. Files of a write in flight are not part of the table."""
    assert callable(make)
    for instant, told in ((OLD, True), (DONE, True), (AT_WORK, False)):
        found = differences({"p0": []}, {"p0": [make(instant)]}, COMMITTED)
        assert found.unknown == ({DataFile("p0", make(instant))} if told else set())


def test_a_log_that_is_being_appended_to_is_not_judged_where_its_name_does_not_say_by_whom() -> None:
    """In layout 1 the name has the instant of the slice. Without a write in flight the file is the table's."""
    appended = replace(COMMITTED, appended=True, quiet=False)
    assert not differences({}, {"p0": [log(DONE)]}, appended).unknown
    assert differences({}, {"p0": [base(DONE)]}, appended).unknown
    assert differences({}, {"p0": [log(DONE)]}, replace(appended, quiet=True)).unknown


@given(known=_folders, stored=_folders)
def test_equal_listings_do_not_differ_and_what_is_gone_is_always_told(
    known: dict[str, frozenset[str]], stored: dict[str, frozenset[str]]
) -> None:
    """A partition that only one of the two knows is compared with an empty one."""
    assert differences(known, known, COMMITTED) == Differences()
    found = differences(known, stored, COMMITTED)
    assert {(one.partition, one.name) for one in found.gone} == {
        (path, name) for path, names in known.items() for name in names - stored.get(path, frozenset())
    }
    assert found.still(found) == found
    assert found.still(Differences()) == Differences(), "what is not a difference any more was a commit in between"


def test_a_table_of_which_all_is_unknown_is_told_in_a_few_lines() -> None:
    """A hundred thousand names are too many for a message."""
    text = named([DataFile("p0", base(f"{DONE[:-3]}{n:03}")) for n in range(100)])
    assert text.startswith(f"p0/{base(f'{DONE[:-3]}000')}, ")
    assert text.endswith(", and 80 more")
    assert named([DataFile("", base(DONE))]) == base(DONE)


PLANNED = "20260302120000000"
SINCE = Committed(
    instants=CompletedInstants(times={DONE: "20260301000005000", AT_WORK: "20260302120000001"}, before=DONE)
)


def of_plan(*names: str) -> frozenset[DataFile]:
    return frozenset(DataFile("p0", name) for name in names)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (log(DONE), True),
        (base(DONE), True),
        (log(AT_WORK), False),  # completed after the plan
        (base(AT_WORK), False),
        (log("20260303000000000"), False),  # of a write that failed, or is in flight
        (log(OLD), False),  # of the slice before
        (f"{log(DONE)}.cdc", False),
        (log(DONE).replace("0b1c", "another"), False),  # the plan is not about that file group
        (base("20260228000000000"), True),  # its commit is archived
    ],
)
def test_a_plan_leaves_out_what_was_committed_before_it_and_is_newer_than_its_base_file(
    stored: str, told: bool
) -> None:
    plan = of_plan(base("20260201000000000"))
    assert left_out(plan, {"p0": [base("20260201000000000"), stored]}, SINCE, at=PLANNED) == (
        of_plan(stored) if told else set()
    )


def test_a_plan_with_all_files_of_its_groups_leaves_out_none() -> None:
    """A group without a base file needs each log file."""
    assert left_out(of_plan(log(DONE)), {"p0": [log(OLD), log(DONE)]}, SINCE, at=PLANNED) == of_plan(log(OLD))
    names = [base("20260201000000000"), log(DONE), log("20260215000000000")]
    assert not left_out(of_plan(*names), {"p0": [*names, base(OLD)]}, SINCE, at=PLANNED)


def test_a_log_compaction_needs_each_log_file_since_the_base_file_below_it() -> None:
    """Its plan names no base file. An older block that it leaves out would be read before the new one."""
    middle, before = "20260215000000000", "20260201000000000"
    stored = {"p0": [base(OLD), log(OLD), base(before), log(middle), log(DONE), base(AT_WORK)]}
    assert not left_out(of_plan(log(middle), log(DONE)), stored, SINCE, at=PLANNED, logs_alone=True)
    assert left_out(of_plan(log(DONE)), stored, SINCE, at=PLANNED, logs_alone=True) == of_plan(log(middle))


def test_in_layout_1_a_log_file_has_the_time_of_its_slice() -> None:
    """Beside a write in flight it is not known whether its rows are committed."""
    slices, plan = replace(SINCE, appended=True), of_plan(base(OLD), log(OLD))
    second = log(OLD).replace(".log.1_", ".log.2_")
    stored = {"p0": [base(OLD), log(OLD), second, log(DONE)]}
    assert left_out(plan, stored, slices, at=PLANNED) == of_plan(second)
    assert not left_out(plan, stored, replace(slices, quiet=False), at=PLANNED)
