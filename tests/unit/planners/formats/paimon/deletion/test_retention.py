"""Which snapshots may expire, and what holds the others."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.deletion.known import KnownNames
from lakewarden.planners.formats.paimon.deletion.names import FileNames
from lakewarden.planners.formats.paimon.deletion.retention import (
    Expiring,
    Retention,
    Rule,
    beyond_retention,
    expiring,
    needed_by,
    rule_of,
)
from lakewarden.planners.formats.paimon.deletion.roots import read_consumers, read_roots, stamp_of_roots
from lakewarden.planners.formats.paimon.metadata.files import CorruptMetadataError, VanishedError
from lakewarden.planners.formats.paimon.metadata.history import Consumer, History, References
from lakewarden.planners.formats.paimon.metadata.snapshots import BATCH, CommitKind, Snapshot, parse_snapshot
from lakewarden.planners.formats.paimon.options.core_options import core_options
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.writers import commit_users
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_table import ADD, DELETE, File, PaimonTable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def snapshot(number: int, age: timedelta, *, user: str = "batch", identifier: int = BATCH) -> Snapshot:
    return Snapshot(
        id=number, version=3, schema=0, base="b", base_size=None, delta="d", delta_size=None, changelog=None,
        index=None, user=user, identifier=identifier, kind=CommitKind.APPEND, at=NOW - age, records=0,
    )  # fmt: skip


def history(count: int, *, read: int | None = None, first: int = 1, jobs: Sequence[tuple[str, int]] = ()) -> History:
    """Return snapshots. Each is ten minutes older than the next, and the newest is new. `jobs` made those of them."""
    numbers, by = range(first, first + count), {number: job for job, number in jobs}
    snapshots = [
        snapshot(
            one, (numbers[-1] - one) * 10 * MINUTE, user=by.get(one, "batch"), identifier=7 if one in by else BATCH
        )
        for one in numbers
    ]
    return History(snapshots=tuple(snapshots[-(read or count) :]), oldest=first)


def rule(**other: object) -> Rule:
    given_ = {"age": HOUR, "outage": HOUR, "restores": 2 * HOUR, "least": 10, "most": 2**31, "keep_last": False}
    return Rule(**{**given_, **other})  # type: ignore[arg-type]


def told(of: History, *consumers: Consumer, now: datetime = NOW, **other: object) -> Retention:
    return beyond_retention(of, References(consumers=consumers), commit_users(of.snapshots), rule(**other), now)


def test_old_ones_go_beyond_the_least_number() -> None:
    assert told(history(10)).beyond == 0
    assert told(history(12)).beyond == 2
    assert told(history(12, first=31)).first_kept == 33
    assert told(History()) == Retention(beyond=0, first_kept=0, next_at=None, held_by=None)


def test_a_snapshot_has_an_age_from_the_commit_after_it() -> None:
    """Until then it was the newest, and a reader may have begun with it."""
    found = told(history(12), least=1)
    assert (found.beyond, found.first_kept) == (5, 6)
    assert found.next_at == NOW + 10 * MINUTE
    assert told(history(12), least=1, now=NOW + 10 * MINUTE).beyond == 6


def test_those_beyond_the_greatest_number_go_although_the_table_would_keep_their_age() -> None:
    """But none of them that is younger than the longest outage."""
    assert told(history(20), most=3, least=1, age=DAY, outage=timedelta(0)).beyond == 17
    assert told(history(20), most=3, least=1, age=DAY, outage=HOUR).beyond == 13
    assert told(history(20), least=1, age=DAY, outage=HOUR).beyond == 0


def test_the_slowest_consumer_holds_what_it_has_not_read() -> None:
    found = told(history(20), Consumer(name="a", next=9), Consumer(name="slow", next=4))
    assert (found.beyond, found.first_kept, found.held_by) == (3, 4, "the consumer slow")
    assert told(history(20), Consumer(name="a", next=19)).held_by is None
    assert told(history(20, first=30), Consumer(name="gone", next=3)).beyond == 0


def test_the_last_snapshot_of_a_streaming_job_stays_until_it_is_not_restored_any_more() -> None:
    """Its earlier snapshots go. It holds what is younger, too."""
    of = history(40, jobs=[("job", 29), ("job", 30), ("old", 3), ("new", 40)])
    found = told(of, least=1)
    assert (found.first_kept, found.held_by) == (30, "the streaming job with the commit user job")
    assert found.next_at == of.snapshots[29].at + 2 * HOUR
    assert told(of, least=1, restores=HOUR).first_kept == 34


def test_the_job_that_committed_last_may_still_run() -> None:
    """So its last snapshot stays without limit, unless the owner says that no such job runs."""
    of = history(40, jobs=[("before", 5), ("job", 6)])
    assert told(of, keep_last=True).first_kept == 6
    assert told(of).first_kept == 31


@pytest.mark.parametrize(("read", "beyond"), [(1, 0), (12, 10), (20, 10)])
def test_of_what_was_not_read_the_oldest_that_was_tells(read: int, beyond: int) -> None:
    """If it is old, all before it are; if it is young, nothing is known of them."""
    assert told(history(20, read=read), least=10 if read > 1 else 1).beyond == beyond


def test_no_option_lets_a_snapshot_expire_within_the_longest_outage() -> None:
    core = core_options({"snapshot.time-retained": "1 min"}, version=3, has_key=True, key_has_partition=True)
    assert rule_of(core, CleanOptions(max_snapshot_age="0s"), PaimonTableOptions()).age == DAY
    assert rule_of(core, CleanOptions(), PaimonTableOptions(longest_outage="0s")).age == MINUTE
    assert rule_of(core, CleanOptions(), PaimonTableOptions(longest_outage="0s")).least == 10
    assert rule_of(core, CleanOptions(min_snapshots_to_keep=3), PaimonTableOptions()).least == 3


_JOBS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=10)


@given(_JOBS, st.integers(1, 60), st.integers(0, 400), st.integers(0, 400), st.integers(1, 50), st.integers(1, 50))
def test_what_must_stay_stays_whatever_the_options_are(
    jobs: list[tuple[str, int]], consumer: int, outage: int, restores: int, least: int, most: int
) -> None:
    """The last commit of each job within its term, what a consumer reads, what is young, and the newest one."""
    of = history(40, jobs=jobs)
    by = rule(age=outage * MINUTE, outage=outage * MINUTE, restores=restores * MINUTE, least=least, most=most)
    found = beyond_retention(
        of, References(consumers=(Consumer(name="c", next=consumer),)), commit_users(of.snapshots), by, NOW
    )
    gone = [one for one in of.snapshots if one.id < found.first_kept]
    assert len(gone) == found.beyond <= max(0, 40 - least)
    assert all(one.id < consumer for one in gone)
    assert all(of.snapshots[one.id].at <= NOW - by.outage for one in gone)
    for user in commit_users(of.snapshots):
        if user.is_streaming and user.newest.at > NOW - by.restores:
            assert user.newest not in gone


# Which files go with the snapshots that expire.

STORAGE = LocalStorage()


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Return an empty table."""
    return PaimonTable(tmp_path / "db.db" / "trips")


def snapshots_of(table: PaimonTable) -> list[Snapshot]:
    files = [table.snapshot_file(number) for number in sorted(table.snapshots)]
    return [parse_snapshot(one.read_bytes(), file=str(one)) for one in files]


def going(table: PaimonTable, first_kept: int) -> list[Expiring]:
    names = FileNames(location=str(table.folder), storage=STORAGE)
    found = snapshots_of(table)
    gone, kept = [one for one in found if one.id < first_kept], [one for one in found if one.id >= first_kept]
    needed = needed_by(kept, read_roots(str(table.folder), STORAGE).snapshots, names)
    return expiring(gone, kept, needed, names)


def live(table: PaimonTable, *numbers: int) -> set[str]:
    return {one.name for number in numbers for one in table.live(number)}


def test_files_go_with_the_last_snapshot_that_has_them(table: PaimonTable) -> None:
    """The files of level 0 with the snapshot before the compaction, the lists of each with itself."""
    table.append()
    table.append()
    table.compact()
    table.append()
    first, second, third = going(table, 4)
    assert (first.data, third.data) == (frozenset(), frozenset())
    assert second.data == live(table, 2)
    lists = [f"manifest/{one.base}" for one in snapshots_of(table)]
    assert [one.metadata[-2] for one in (first, second, third)] == lists[:3]


def rewrite_index(table: PaimonTable, old: File, *extra: str) -> File:
    new = replace(old, stated={"_EXTRA_FILES": list(extra)})
    table.commit([(DELETE, old), (ADD, new)], kind="COMPACT")
    return new


def test_a_tag_needs_the_index_that_was_made_for_a_data_file(table: PaimonTable) -> None:
    """`rewrite_file_index` deletes and adds the data file by one commit, with other files that go with it."""
    table.append(plain := table.file())
    indexed = rewrite_index(table, plain, f"{plain.name}.index")
    table.tag("kept")
    table.commit([(DELETE, indexed), (ADD, table.file(level=5))], kind="COMPACT")
    table.append()
    assert [one.data for one in going(table, 4)] == [frozenset()] * 3


def test_an_index_that_was_made_again_under_its_name_stays(table: PaimonTable) -> None:
    """The newest snapshot needs it, although an older one does without it."""
    table.append(one := table.file())
    for extra in ([f"{one.name}.index"], [], [f"{one.name}.index"]):
        one = rewrite_index(table, one, *extra)
    table.append()
    assert [gone.data for gone in going(table, 5)] == [frozenset()] * 4


def test_the_lists_and_manifests_of_a_kept_snapshot_must_be_there(table: PaimonTable) -> None:
    """Otherwise it is not known what it needs."""
    table.append()
    table.append()
    table.manifest_file(table.manifests[1][0]).unlink()
    with pytest.raises(VanishedError):
        going(table, 2)


def test_what_names_a_file_that_is_gone_is_named_with_what_to_do(table: PaimonTable) -> None:
    """An expiry of Paimon's own on a branch deletes what a tag of the branch has."""
    table.append()
    table.tag("first day")
    (table.folder / "branch" / "branch-b" / "tag").mkdir(parents=True)
    (table.folder / "tag" / "tag-first day").rename(table.folder / "branch" / "branch-b" / "tag" / "tag-first day")
    table.append()
    first = snapshots_of(table)[0]
    (table.folder / "manifest" / first.delta).unlink()
    with pytest.raises(VanishedError, match=r"tag 'first day' of the branch 'b' names it.*delete the tag"):
        going(table, 2)
    table.snapshot_file(first.id).unlink()
    with pytest.raises(TemporaryError, match=r"tag 'first day' of the branch 'b' names it.*delete the tag"):
        KnownNames(str(table.folder), STORAGE).look()


def test_what_a_killed_run_has_deleted_is_not_looked_for(table: PaimonTable) -> None:
    """Of the oldest snapshot the file alone may be left. Its lists go, as far as they are there."""
    table.append()
    table.append()
    table.compact()
    first = snapshots_of(table)[0]
    (table.folder / "manifest" / first.base).unlink()
    found = going(table, 3)
    assert found[0].metadata == (f"manifest/{first.base}", f"manifest/{first.delta}")
    assert found[1].data == live(table, 2)


def test_a_manifest_that_is_damaged_lets_nothing_expire(table: PaimonTable) -> None:
    table.append()
    table.compact()
    table.append()
    file = table.manifest_file(table.manifests[2][1])
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptMetadataError):
        going(table, 3)


@pytest.mark.parametrize(
    ("strange", "holds"),
    [
        ("tag/notes.txt", "all"),
        ("branch/branch-b/snapshot/old", "all"),
        ("branch/copy/snapshot/snapshot-1", "all"),
        ("branch/branch-b/changelog/changelog-1", "all"),
        ("snapshot/backup-1", "orphans"),
        ("changelog/x", "orphans"),
    ],
)
def test_a_file_that_is_not_understood_holds_everything_back(table: PaimonTable, strange: str, holds: str) -> None:
    """It may need files of the table: nothing expires, and nothing is an orphan."""
    table.append()
    file = table.folder / strange
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    if holds == "all":
        with pytest.raises(PermanentError):
            read_roots(str(table.folder), STORAGE)
    with pytest.raises(PermanentError):
        KnownNames(str(table.folder), STORAGE).look()


def test_the_success_files_of_tags_hold_nothing_back(table: PaimonTable) -> None:
    """Paimon puts them beside the tags of the table and of a branch (`tag.create-success-file`)."""
    table.append()
    table.tag("daily")
    table.branch("b")
    location = str(table.folder)
    for folder in ("tag", "branch/branch-b/tag"):
        success = table.folder / folder / "tag-success-file" / "daily_SUCCESS"
        success.parent.mkdir(parents=True)
        success.write_text("{}")
    assert {one.rpartition("/")[2] for one in read_roots(location, STORAGE).snapshots} == {"tag-daily", "snapshot-1"}
    assert stamp_of_roots(location, STORAGE) == read_roots(location, STORAGE).stamp
    KnownNames(location, STORAGE).look()


def test_a_consumer_that_is_not_understood_holds_everything_back(table: PaimonTable) -> None:
    """It may read any snapshot. One that is about to be renamed is none."""
    table.append()
    table.consume("a", 1)
    (table.folder / "consumer" / ".consumer-a.tmp").write_text("")
    assert [one.next for one in read_consumers(str(table.folder), STORAGE)] == [1]
    (table.folder / "consumer" / "reader-b").write_text("{}")
    with pytest.raises(PermanentError):
        read_consumers(str(table.folder), STORAGE)


def test_a_tag_or_a_branch_that_comes_or_goes_is_noticed(table: PaimonTable) -> None:
    """By a listing, before each deletion."""
    location, stamps = str(table.folder), []
    table.append()
    for change in (
        lambda: None,
        lambda: table.tag("a"),
        lambda: table.branch("b"),
        (table.folder / "tag/tag-a").unlink,
    ):
        change()
        stamps.append(stamp_of_roots(location, STORAGE))
        assert read_roots(location, STORAGE).stamp == stamps[-1]
    assert len(set(stamps)) == 4


_ACTS = st.lists(
    st.sampled_from(["append", "compact", "upgrade", "merge", "overwrite", "tag", "branch"]), min_size=1, max_size=14
)


@settings(max_examples=60, deadline=None)
@given(_ACTS, st.data())
def test_exactly_the_files_that_nothing_needs_go(acts: list[str], data: st.DataObject) -> None:
    """For every history: no file that a snapshot, a tag or a branch needs goes, and none that nothing needs stays."""
    with tempfile.TemporaryDirectory() as folder:
        table = PaimonTable(Path(folder) / "t")
        table.append()
        held = set[int]()
        for number, act in enumerate(acts):
            match act:
                case "append":
                    table.append()
                case "merge":
                    table.commit([(ADD, table.file())], merging=True)
                case "overwrite":
                    table.commit([*((DELETE, one) for one in table.live()), (ADD, table.file())], kind="OVERWRITE")
                case "tag" | "branch":
                    getattr(table, act)(f"x{number}")
                    held.add(table.newest)
                case _:
                    getattr(table, act)()
        first_kept = data.draw(st.integers(1, table.newest))
        found = going(table, first_kept)
        gone = {name for one in found for name in one.data}
        stays = live(table, *held, *range(first_kept, table.newest + 1))
        assert gone == live(table, *range(1, table.newest + 1)) - stays
        others = {name for one in found for name in one.metadata}
        for number in (*held, *range(first_kept, table.newest + 1)):
            assert not {f"manifest/{one.name}" for one in table.manifests[number]} & others
        on_disk = {f"manifest/{one.name}" for one in (table.folder / "manifest").iterdir()}
        kept = {*held, *range(first_kept, table.newest + 1)}
        named = {f"manifest/{one.name}" for number in kept for one in table.manifests[number]}
        lists = [(one.base, one.delta) for one in snapshots_of(table) if one.id in kept]
        assert on_disk - others == named | {f"manifest/{name}" for pair in lists for name in pair}
