"""Which partitions the writers of a table have touched, and are about to touch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI, THOROUGH
from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.table import Mode
from lakewarden.planners.storage import LocalStorage, storage_for
from lakewarden.planners.triggers import AllOf, AnyOf, LogBytes, LogFiles, NumCommits, SmallFiles, Trigger
from tests.support.hudi.hudi_look import look, made, registered, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content, log_file


class CountingStorage(LocalStorage):
    """Remembers the names of the files that were read."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        self.names.append(Path(location).name)
        return super().read(location, limit=limit)


def touched(table: HudiTable) -> Mapping[str, tuple[str, bool]]:
    """Return the newest write of each partition, and whether it changed rows."""
    touches = seen(table).writers.touches
    assert touches is not None
    return {partition: (touch.instant, touch.updates) for partition, touch in touches.items()}


@pytest.mark.parametrize("version", [6, 9])
def test_the_newest_write_into_each_partition_counts(tmp_path: Path, version: int) -> None:
    """It also says whether the write changed existing rows: by an update, a delete, or files taken out of the table."""
    table = made(tmp_path, version=version)
    first = table.write({"p0": [log_file("a", "1")], "p1": [log_file("b", "1")], "p2": [], "p3": [], "": []})
    second = table.write({"p0": [base_file("c", "2")], "p1": [log_file("b", "1", updates=0, deletes=1)]})
    third = table.write({}, action="replacecommit", replaced={"p2": ["d"]}, operation="DELETE_PARTITION")
    assert touched(table) == {
        "p0": (second, False), "p1": (second, True), "p2": (third, True), "p3": (first, False), "": (first, False),
    }  # fmt: skip


def test_a_touch_is_when_its_write_was_completed(tmp_path: Path) -> None:
    """Layout 1 has no such time, so it is when the file was written. A long write must not look cold."""
    for version in (6, 9):
        table = made(tmp_path / str(version), version=version)
        time = table.begin_write()
        begun = table.clock.now()
        table.commit_write(time, content=commit_content({"p0": []}))
        touches = seen(table).writers.touches
        assert touches is not None
        assert (touches["p0"].at - begun).total_seconds() == pytest.approx(0.5, abs=0.2)


def test_a_write_that_ends_last_is_the_newest_whenever_it_began(tmp_path: Path) -> None:
    """Writes of several writers overlap."""
    table = made(tmp_path)
    early, late = table.begin_write(), table.begin_write()
    table.commit_write(late, content=commit_content({"p0": []}))
    table.commit_write(early, content=commit_content({"p0": []}))
    assert touched(table) == {"p0": (early, False)}


def test_services_touch_nothing(tmp_path: Path) -> None:
    """They only rewrite rows. A compaction of ours does not keep a partition warm."""
    table = made(tmp_path)
    time = table.plan_compaction()
    table.complete(time, "compaction", commit_content({"p0": [base_file("a", time, updates=5)]}, operation="COMPACT"))
    assert touched(table) == {}


def test_an_empty_commit_wrote_nothing(tmp_path: Path) -> None:
    """Hudi also reads an empty file so."""
    table = made(tmp_path)
    table.commit_write(table.begin_write(), content=b"")
    assert (touched(table), seen(table).faults) == ({}, ())


def test_a_write_in_flight_says_what_it_will_touch(tmp_path: Path) -> None:
    """Its inflight file holds the workload profile. Before that its partitions are not known."""
    table = made(tmp_path)
    assert seen(table).writers.touching == {}
    first, second = table.begin_write(), table.begin_write()
    table.put(f"{first}.deltacommit.inflight", commit_content({"p0": [], "p1": []}))
    assert seen(table).writers.touching == {first: frozenset({"p0", "p1"})}
    table.put(f"{second}.deltacommit.inflight", commit_content({"p2": []}))
    assert seen(table).writers.touching == {first: frozenset({"p0", "p1"}), second: frozenset({"p2"})}


@pytest.mark.parametrize("operation", ["INSERT_OVERWRITE_TABLE", "DELETE_PARTITION", "BULK_INSERT", "UNHEARD_OF"])
def test_a_write_that_changes_more_than_it_names_does_not_say_where(tmp_path: Path, operation: str) -> None:
    """An insert overwrite of a whole table names only the partitions that it fills."""
    table = made(tmp_path)
    table.put(f"{table.begin_write()}.deltacommit.inflight", commit_content({"p0": []}, operation=operation))
    assert seen(table).writers.touching == {}


@pytest.mark.parametrize("content", [b"", b"{}", b"{", b"Obj\x01", b'{"operationType": "UPSERT", "x": 7}'])
def test_an_inflight_file_that_cannot_be_read_says_nothing_and_is_no_fault(tmp_path: Path, content: bytes) -> None:
    """It may be being written."""
    table = made(tmp_path)
    table.put(f"{table.begin_write()}.deltacommit.inflight", content)
    view = seen(table)
    assert (view.writers.touching, view.faults) == ({}, ())


def test_a_commit_too_large_to_be_read_leaves_unknown_what_was_touched_and_holds_back_nothing(tmp_path: Path) -> None:
    """Counting commits does not need it. An operator is told."""
    table = made(tmp_path)
    table.write({"p0": []})
    before = look(table)
    last = table.write({"p0": []})
    (completed,) = (path for path in table.timeline.glob(f"{last}*") if path.suffix == ".deltacommit")
    os.truncate(completed, 2**31)  # a sparse file
    view = look(table, previous=before).view
    assert (view.writers.touches, view.faults) == (None, ())
    assert view.backlogs[Service.COMPACTION].log_files is None
    assert view.backlogs[Service.CLUSTERING].small_files is None
    assert view.backlogs[Service.COMPACTION].commits == 2
    assert "larger than 1GiB" in view.warnings[0]


def test_a_commit_that_was_half_written_counts_once_it_is_whole(tmp_path: Path) -> None:
    """A value that was derived without it is not remembered for the same names."""
    table = made(tmp_path)
    table.commit_write(table.begin_write(), content=b'{"partition')
    half = look(table)
    assert (half.view.writers.touches, len(half.view.faults)) == (None, 1)
    (file,) = table.timeline.glob("*_*.deltacommit")
    table.put(file.name, commit_content({"p0": [log_file("a", "1")]}))
    whole = look(table, previous=half).view
    assert (whole.backlogs[Service.COMPACTION].log_files, whole.faults) == (1, ())


def test_a_ttl_of_ours_is_told_from_a_writers_deletion_by_its_signature(tmp_path: Path) -> None:
    """On the timeline both are replacecommits that delete partitions."""
    table = made(tmp_path)
    for run in (None, "run-1"):
        table.write({}, action="replacecommit", replaced={"p0": ["a"]}, operation="DELETE_PARTITION", run=run)
    table.write({"p1": []})
    view = seen(table)
    assert [i.stands_for for i in view.timeline.instants] == [InstantKind.WRITE, Service.TTL, InstantKind.WRITE]
    assert view.backlogs[Service.TTL].commits == 1


@pytest.mark.parametrize(
    ("mode", "policies", "trigger", "wanted"),
    [
        (Mode.ACT, (), NumCommits(at_least=1), False),
        (Mode.ACT, (Service.COMPACTION, Service.CLEAN, Service.ARCHIVE), NumCommits(at_least=1), False),
        (Mode.ACT, (Service.CLUSTERING,), NumCommits(at_least=1), True),
        (Mode.ACT, (Service.TTL,), NumCommits(at_least=1), True),
        (Mode.ACT, (Service.COMPACTION,), LogFiles(at_least=1), True),
        (Mode.ACT, (Service.COMPACTION,), AnyOf(triggers=(AllOf(triggers=(LogBytes(at_least=1),)),)), True),
        (Mode.ACT, (Service.COMPACTION,), AnyOf(triggers=(NumCommits(at_least=2), SmallFiles(at_least=1))), True),
        (Mode.OBSERVE, (Service.COMPACTION,), NumCommits(at_least=1), True),
        (Mode.PLAN, (Service.CLEAN,), NumCommits(at_least=1), True),
        (Mode.PLAN, (Service.ARCHIVE,), NumCommits(at_least=1), False),
    ],
)
def test_commits_are_read_only_where_a_policy_or_an_estimate_needs_them(
    tmp_path: Path, mode: Mode, policies: tuple[Service, ...], trigger: Trigger, wanted: bool
) -> None:
    """A table that is acted on, and counts commits only, needs their names. One that is not acted on is shown what its
    services would do.
    """
    table = made(tmp_path)
    table.write({"p0": []})
    asked = replace(registered(table, *policies, trigger=trigger), mode=mode)
    view = HUDI.observe(asked, storage_for(str(table.folder)), None, now=table.clock.now()).view
    assert (view.writers.touches is not None) is wanted


def test_what_a_commit_wrote_is_read_once(tmp_path: Path) -> None:
    """The next observation remembers it, and what was derived of all commits while they stay the same."""
    table = made(tmp_path)
    table.write({"p0": [log_file("a", "1")]})
    first = look(table)
    storage = CountingStorage()
    again = THOROUGH.observe(registered(table), storage, first, now=table.clock.now())
    assert storage.names == ["hoodie.properties", "hoodie.properties.backup"]
    assert again.view == first.view

    table.write({"p0": [log_file("a", "2")]})
    storage = CountingStorage()
    newer = THOROUGH.observe(registered(table), storage, again, now=table.clock.now())
    assert len(storage.names) == 3
    assert newer.view.backlogs[Service.COMPACTION].log_files == 2
