"""Which buckets one run compacts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.backlog import compactions
from lakewarden.planners.formats.paimon.backlog.compactions import chosen, is_full
from lakewarden.planners.formats.paimon.options.service_options import CompactionOptions, CompactStrategy
from tests.support.paimon.paimon_look import CountingStorage, facts_of, look
from tests.support.paimon.paimon_table import PaimonTable

MINOR = CompactionOptions(strategy=CompactStrategy.MINOR)


def taken(
    table: PaimonTable, options: CompactionOptions | None = None, most_bytes: int = 10**9, turn: str = ""
) -> list[tuple[int, int]]:
    """Return the partitions and buckets that are chosen, in their order."""
    found = look(table)
    assert found.memo.totals is not None
    asked = options or CompactionOptions()
    buckets = chosen(found.memo.totals, found.facts.schema, asked, most_bytes=most_bytes, turn=turn)
    return [(int.from_bytes(one.partition[12:], "little"), one.number) for one in buckets]


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Make a table with two, six and one sorted runs in three partitions, and with a compacted fourth."""
    table = PaimonTable(tmp_path / "t")
    for p, runs in ((0, 2), (1, 6), (2, 1)):
        for _ in range(runs):
            table.append(table.file(p))
    table.append(table.file(3, level=5))
    return table


def test_a_full_compaction_takes_what_has_more_than_one_sorted_run_the_most_first(table: PaimonTable) -> None:
    """A single file of level 0 is moved to the highest level, and one there is left alone."""
    assert taken(table) == [(1, 0), (0, 0), (2, 0)]


def test_a_minor_compaction_takes_the_buckets_at_the_trigger(table: PaimonTable) -> None:
    """Paimon picks nothing in the others, unless readers do not see level 0."""
    assert taken(table, MINOR) == [(1, 0)]
    table.alter(deletion_vectors__enabled="true")
    assert taken(table, MINOR) == [(1, 0), (0, 0), (2, 0)]


@pytest.mark.parametrize(
    "option",
    [
        {"changelog_producer": "lookup"},
        {"changelog_producer": "full-compaction"},
        {"force_lookup": "true"},
        {"compaction__force_up_level_0": "true"},
    ],
    ids=str,
)
def test_a_minor_compaction_takes_each_bucket_for_which_a_reader_of_the_changelog_waits(
    table: PaimonTable, option: dict[str, str]
) -> None:
    """Paimon takes all of level 0. Changelogs by full compaction need one."""
    table.alter(**option)
    assert taken(table, MINOR) == [(1, 0), (0, 0), (2, 0)]


def test_a_minor_compaction_is_a_full_one_if_merges_need_the_oldest_run_and_nothing_looks_it_up(
    table: PaimonTable,
) -> None:
    """Paimon's choice of the newer runs would lose what they retract."""
    table.alter(merge_engine="partial-update")
    assert not is_full(look(table).facts.schema, MINOR)
    table.alter(merge_engine="partial-update", partial_update__remove_record_on_delete="true")
    assert is_full(look(table).facts.schema, MINOR)
    table.alter(compaction__force_up_level_0="true")
    assert is_full(look(table).facts.schema, MINOR)
    table.alter(force_lookup="true")
    assert not is_full(look(table).facts.schema, MINOR)


def test_one_run_is_bounded_and_takes_at_least_one_bucket(table: PaimonTable) -> None:
    """A bucket that is larger than the bound does not keep the smaller ones waiting for ever."""
    assert taken(table, most_bytes=1) == [(1, 0)]
    assert taken(table, most_bytes=7000) == [(1, 0), (2, 0)]
    assert taken(table, CompactionOptions(max_buckets=2)) == [(1, 0), (0, 0)]


def test_small_files_of_an_append_table_are_joined_from_five_on(tmp_path: Path) -> None:
    """Of a table with buckets Paimon joins three."""
    events = PaimonTable(tmp_path / "events", keyed=False, options={"write-only": "true"})
    events.append(*(events.file(0) for _ in range(4)), *(events.file(1) for _ in range(5)))
    assert taken(events) == [(1, 0)]
    bucketed = PaimonTable(tmp_path / "bucketed", keyed=False, options={"bucket": "1", "write-only": "true"})
    bucketed.append(*(bucketed.file(0) for _ in range(2)), *(bucketed.file(1) for _ in range(3)))
    assert taken(bucketed) == [(1, 0)]


def test_buckets_in_which_paimon_may_find_nothing_keep_no_other_waiting(tmp_path: Path) -> None:
    """Paimon leaves a bucket of an append table alone if it does not have more small files than large ones behind the
    first small one. The order of the files is not known.
    """
    table = PaimonTable(tmp_path / "t", keyed=False, options={"bucket": "1", "write-only": "true"})
    for p in (0, 1):
        for _ in range(4):
            table.append(table.file(p), table.file(p, size=2**30))
    table.append(*(table.file(2) for _ in range(3)))
    assert taken(table, most_bytes=10**12)[0] == (2, 0)
    table.compact(p=2)
    one = CompactionOptions(max_buckets=1)
    assert {taken(table, one, turn=str(number))[0] for number in range(20)} == {(0, 0), (1, 0)}


# Which compaction was the last full one.


@pytest.fixture
def trips(tmp_path: Path) -> PaimonTable:
    trips = PaimonTable(tmp_path / "trips")
    trips.append(trips.file(0), trips.file(1))
    return trips


def test_one_that_writes_the_highest_level_alone_is_full(trips: PaimonTable) -> None:
    trips.compact(level=5)
    trips.append()
    trips.compact(level=4)
    since = facts_of(trips).since
    assert (since.last is not None and since.last.id, since.commits, since.any_commits) == (2, 1, 0)
    trips.alter(num_levels="5")
    since = facts_of(trips).since
    assert (since.last is not None and since.last.id, since.commits) == (4, 0)


def test_one_that_moves_files_to_the_highest_level_is_full(trips: PaimonTable) -> None:
    trips.upgrade(level=5)
    assert facts_of(trips).since.commits == 0


def test_every_compaction_of_an_append_table_counts(tmp_path: Path) -> None:
    trips = PaimonTable(tmp_path / "events", keyed=False, options={})
    trips.append()
    trips.compact(level=0)
    trips.append()
    assert facts_of(trips).since.commits == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_a_merge_of_manifests_by_another_program_is_no_compaction(tmp_path: Path, keyed: bool) -> None:
    """`sys.compact_manifest` makes a snapshot of the same kind, which names no file."""
    trips = PaimonTable(tmp_path / "events", keyed=keyed)
    trips.append()
    trips.commit([], kind="COMPACT", user="a-procedure", merging=True)
    trips.compact(level=5 if keyed else 0, user="lakewarden-1")
    trips.append()
    trips.commit([], kind="COMPACT", user="a-procedure", merging=True)
    found = facts_of(trips).since
    assert (found.last is not None and found.last.id, found.commits, found.any_commits) == (3, 1, 1)
    assert found.idle == {2, 5}


def test_a_compaction_is_looked_at_once(trips: PaimonTable) -> None:
    trips.compact(level=3)
    first = look(trips)
    trips.append(merging=True)
    counting = CountingStorage()
    second = look(trips, first.memo, storage=counting)
    assert len([name for name in counting.read_files if name.startswith("manifest-list-")]) == 2
    assert second.facts.since == look(trips).facts.since


def test_of_many_compactions_the_newest_are_looked_at(trips: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then all commits are counted that are known."""
    trips.compact(level=5)
    for _ in range(3):
        trips.append()
        trips.compact(level=2)
    monkeypatch.setattr(compactions, "_MOST", 3)
    assert facts_of(trips).since.commits == 4
    monkeypatch.setattr(compactions, "_MOST", 4)
    assert facts_of(trips).since.commits == 3


def test_a_compaction_that_cannot_be_read_is_a_fault(trips: PaimonTable) -> None:
    """It is taken for one that was not full."""
    trips.compact(level=5)
    trips.append(merging=True)
    (trips.folder / "manifest" / trips.snapshots[2]["deltaManifestList"]).write_bytes(b"")
    found = look(trips)
    assert "is not a valid manifest list" in found.faults[0]
    assert found.facts.since.commits == 2
