"""Which commits may leave the active timeline: never those that are still looked for there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.backlog import archiving
from lakewarden.planners.formats.hudi.backlog.archiving import (
    ArchiveReading,
    Commit,
    Pin,
    archivable,
    checkpoints,
    overtaken_pins,
    taken_back_pins,
)
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.options.service_options import ArchiveOptions, CleanOptions, CleanPolicy
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable, log_file

TIMES = [f"2026010100{minute:02}00000" for minute in range(40)]
WRITERS = st.frozensets(st.sampled_from(["query a", "query b", "deltastreamer.checkpoint.key"]))
COMMITS = st.lists(WRITERS, max_size=40).map(
    lambda found: [Commit(time=TIMES[n], checkpoints=one) for n, one in enumerate(found)]
)


@given(commits=COMMITS, keep_min=st.integers(2, 20), more=st.integers(1, 10))
def test_the_newest_checkpoint_of_every_writer_stays(commits: list[Commit], keep_min: int, more: int) -> None:
    """Whatever is archived, each identifier's last commit stays, and so do the newest commits."""
    going, reason = archivable(commits, (), keep_min=keep_min, keep_max=keep_min + more)

    staying = commits[len(going) :]
    assert list(going) + staying == commits  # no holes: the oldest go
    for identifier in {one for commit in commits for one in commit.checkpoints}:
        newest = [commit for commit in commits if identifier in commit.checkpoints][-1]
        assert newest in staying
    assert len(staying) >= min(keep_min, len(commits))
    assert reason


@given(commits=COMMITS, pins=st.lists(st.sampled_from(TIMES)), keep_min=st.integers(2, 20))
def test_nothing_from_a_pin_on_goes(commits: list[Commit], pins: list[str], keep_min: int) -> None:
    """A pin holds its own instant and everything after it."""
    going, _ = archivable(
        commits, [Pin(at=at, reason="it is needed") for at in pins], keep_min=keep_min, keep_max=keep_min + 1
    )

    assert all(commit.time < at for commit in going for at in pins)


@pytest.mark.parametrize(
    ("keep", "clean", "refused"),
    [
        (20, CleanOptions(), False),
        (10, CleanOptions(), True),
        (20, CleanOptions(commits_retained=20), True),
        (21, CleanOptions(commits_retained=20), False),
        (2, CleanOptions(policy=CleanPolicy.KEEP_LATEST_BY_HOURS), False),
    ],
)
def test_an_archive_that_takes_what_the_clean_counts_is_refused(keep: int, clean: CleanOptions, refused: bool) -> None:
    """With fewer active commits than it retains, a clean never finds anything to delete."""
    options = {Service.ARCHIVE: ArchiveOptions(keep_min_commits=keep, keep_max_commits=keep + 1), Service.CLEAN: clean}
    policies = {service: Policy(trigger=NumCommits(at_least=1), options=one) for service, one in options.items()}

    found = HUDI.contradictions(Table(id=TableId("t"), format="hudi", location="/t", policies=policies))

    assert [one.key for one in found] == ["services.archive.options.keep_min_commits"] * refused


@pytest.mark.parametrize(
    ("metadata", "writers"),
    [
        ({"_hudi_streaming_sink_checkpoint": '{"q1":"7","q2":"3"}'}, {"query q1", "query q2"}),
        ({"_hudi_streaming_sink_checkpoint": "nonsense"}, {"_hudi_streaming_sink_checkpoint"}),
        ({"deltastreamer.checkpoint.key": "topic,0:9"}, {"deltastreamer.checkpoint.key"}),
        ({"streamer.checkpoint.key.v2": "topic,0:9"}, {"streamer.checkpoint.key.v2"}),
        ({"kafka.commit.offsets": "0=9"}, {"kafka.commit.offsets"}),
        ({"deltastreamer.checkpoint.key": "", "schema": "{}"}, set()),
    ],
)
def test_a_commit_tells_whose_progress_it_holds(metadata: dict[str, str], writers: set[str]) -> None:
    """Streaming queries are known by their identifier, Hudi Streamer by its key. An empty value holds nothing."""
    assert checkpoints(metadata) == writers


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return made(tmp_path, version=request.param)


def _commits(table: HudiTable, number: int) -> list[str]:
    return [table.write({}) for _ in range(number)]


def _read(table: HudiTable) -> tuple[int, str]:
    archiving = ArchiveReading(str(table.folder), LocalStorage()).archiving(keep_min=2, keep_max=3)
    return archiving.going, archiving.reason


def test_without_pins_all_but_the_newest_go(table: HudiTable) -> None:
    """The cleans and rollbacks between them go with them."""
    _commits(table, 3)
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen="")
    _commits(table, 3)
    archiving = ArchiveReading(str(table.folder), LocalStorage()).archiving(keep_min=2, keep_max=3)
    assert (archiving.commits, archiving.going, archiving.instants) == (6, 4, 5)


def test_a_pending_write_holds_what_came_before_it(table: HudiTable) -> None:
    """The last commit before it stays: Hudi leaves no hole at the start of its timeline."""
    _commits(table, 2)
    pending = table.begin_write()
    _commits(table, 3)
    going, reason = _read(table)
    assert going == 1
    assert f"deltacommit {pending} is pending" in reason


def test_a_savepoint_holds_all_that_follows(table: HudiTable) -> None:
    """The commit that was saved stays, too."""
    times = _commits(table, 6)
    table.savepoint(times[1], {"p0": ("a.parquet",)})
    going, reason = _read(table)
    assert going == 1
    assert f"savepoint {times[1]}" in reason


def test_what_the_last_clean_retained_stays(table: HudiTable) -> None:
    """The next clean continues from there, and need not look through the whole table."""
    times = _commits(table, 6)
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen=times[-1], retained=times[2])
    going, reason = _read(table)
    assert going == 2
    assert f"retained everything since {times[2]}" in reason


def _replace(table: HudiTable, group: str) -> Path:
    """Commit that a file group is no longer part of the table, and return its file, which is still there."""
    file = table.folder / "p0" / f"{group}_0-1-2_20260101000000000.parquet"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    table.write({}, action="replacecommit", replaced={"p0": [group]}, operation="INSERT_OVERWRITE")
    return file


def test_a_replacement_stays_until_what_it_replaced_is_gone(table: HudiTable) -> None:
    """Without it readers would see the replaced files again. A clean that has gone past it proves nothing: it passes
    over what a savepoint holds, and a clean by file versions may have been planned before.
    """
    _commits(table, 1)
    replaced = _replace(table, "a-0")
    times = _commits(table, 4)
    table.savepoint(times[0], {"p0": (replaced.name,)})
    assert _read(table)[0] == 1
    table.complete_clean(table.plan_clean(files={"p1": ("b.parquet",)}), seen=times[-1], retained=times[-1])
    [saved] = table.timeline.glob("*.savepoint")
    for file in (saved, *table.timeline.glob("*.savepoint.inflight")):
        file.unlink()

    going, reason = _read(table)
    assert going == 1
    assert "no clean has removed yet what" in reason

    replaced.unlink()
    assert _read(table)[0] == 4


def test_a_log_file_of_what_was_replaced_is_enough(table: HudiTable) -> None:
    """It is read like a base file. A file of another group does not count."""
    _commits(table, 1)
    base = _replace(table, "a-0")
    log = base.with_name(".a-0_20260101000000000.log.1_0-1-2")
    base.rename(log)
    base.with_name("a-01_0-1-2_20260101000000000.parquet").touch()
    _commits(table, 4)
    assert _read(table)[0] == 1
    log.unlink()
    assert _read(table)[0] == 4


class _LeavingOut(LocalStorage):
    """Leaves every other listing of a partition empty."""

    def __init__(self) -> None:
        self._listings = 0

    def listing(self, location: str, **more: int) -> Sequence[FileEntry]:
        if not location.endswith("/p0"):
            return super().listing(location, **more)
        self._listings += 1
        return () if self._listings % 2 else super().listing(location, **more)


def test_one_listing_that_is_not_whole_does_not_make_files_gone(table: HudiTable) -> None:
    """Files that a store leaves out are still there, and would be read again."""
    _replace(table, "a-0")
    _commits(table, 4)
    reading = ArchiveReading(str(table.folder), _LeavingOut())
    assert reading.archiving(keep_min=2, keep_max=3).going == 0


def test_while_a_clean_deletes_no_replacement_goes(table: HudiTable) -> None:
    """The files are gone by then, and the metadata table lists them until the clean is completed."""
    _commits(table, 1)
    _replace(table, "a-0").unlink()
    _commits(table, 4)
    clean = table.plan_clean(files={"p0": ("a.parquet",)})
    table.put(f"{clean}.clean.inflight")
    assert _read(table)[0] == 1
    table.complete_clean(clean, seen="")
    assert _read(table)[0] == 4


class _Counting(LocalStorage):
    """Counts what is read, and lists no folder of data once it is `closed`."""

    def __init__(self) -> None:
        self.reads = 0
        self.closed = False

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        self.reads += location.endswith("commit")
        return super().read(location, limit=limit)

    def listing(self, location: str, **more: int) -> Sequence[FileEntry]:
        assert not self.closed or ".hoodie" in location
        return super().listing(location, **more)


def test_under_the_lock_only_what_is_new_is_read(table: HudiTable) -> None:
    """A run has read each commit once before it takes the lock, and has looked for the replaced files. What is replaced
    after that was not looked for, and stays.
    """
    _commits(table, 1)
    _replace(table, "a-0").unlink()
    _commits(table, 6)
    storage = _Counting()
    reading = ArchiveReading(str(table.folder), storage)
    assert reading.archiving(keep_min=2, keep_max=3).going == 6
    assert storage.reads == 8

    storage.reads, storage.closed = 0, True
    _commits(table, 1)
    assert reading.archiving(keep_min=2, keep_max=3, locked=True).going == 7
    assert storage.reads == 1

    _replace(table, "b-0").unlink()
    _commits(table, 2)
    assert reading.archiving(keep_min=2, keep_max=3, locked=True).going == 9
    storage.closed = False
    assert reading.archiving(keep_min=2, keep_max=3).going == 10


def test_a_short_timeline_is_not_even_read(table: HudiTable) -> None:
    """There is nothing to choose from."""
    _commits(table, 3)
    storage = _Counting()
    assert ArchiveReading(str(table.folder), storage).archiving(keep_min=2, keep_max=3).going == 0
    assert storage.reads == 0


def test_a_metadata_table_that_was_never_compacted_holds_everything(table: HudiTable) -> None:
    """Hudi does the same, and an operator reads the reason. Remains of a metadata table that is not used any more hold
    nothing.
    """
    _commits(table, 6)
    HudiTable(table.home / "metadata", version=table.version, clock=table.clock, zone=UTC)
    assert _read(table)[0] == 4
    table.properties = {"hoodie.table.metadata.partitions": "files"}
    table.set_properties(kind="MERGE_ON_READ")
    assert _read(table) == (0, "4 of 4 commits that could go are held: the metadata table has not been compacted yet")


def test_a_commit_that_cannot_be_read_lets_nothing_be_archived(table: HudiTable) -> None:
    """It may hold a checkpoint."""
    _commits(table, 6)
    [first, *_] = sorted(path.name for path in table.timeline.glob("*.deltacommit"))
    table.put(first, b"Obj\x01half")
    with pytest.raises(TemporaryError, match="cannot be read"):
        _read(table)


@pytest.mark.parametrize(
    ("compactions", "retained", "pinned"),
    [
        ((), None, False),
        ((12,), None, True),
        ((12, 18), None, True),
        ((12, 25), None, False),
        ((12, 25), 24, True),
        ((12, 25), 25, False),
        ((5, 25), None, False),
    ],
)
def test_a_write_that_a_compaction_overtook_stays_while_its_log_files_are_read(
    compactions: tuple[int, ...], retained: int | None, pinned: bool
) -> None:
    """It is requested at 10 and completed at 20. It stays until a compaction that was planned later has merged it, and
    the slices before that are not read any more.
    """
    write = InstantFiles(
        time=TIMES[10],
        action=Action.DELTACOMMIT,
        state=State.COMPLETED,
        completed_time=TIMES[20],
        requested=None,
        inflight=None,
        completed=None,
    )

    pins = list(
        overtaken_pins(
            [write],
            [TIMES[minute] for minute in compactions],
            retained=None if retained is None else TIMES[retained],
        )
    )

    assert [pin.at for pin in pins] == ([TIMES[10]] if pinned else [])


@given(
    plan=st.integers(0, 39), writes=st.sets(st.integers(0, 39)), completed=st.booleans(), keep_min=st.integers(2, 20)
)
def test_no_archive_goes_past_a_plan_that_was_taken_back_while_its_log_files_are_there(
    plan: int, writes: set[int], completed: bool, keep_min: int
) -> None:
    """Hudi takes an instant that is older than the first commit for completed. So a commit that is older than the plan
    stays first.
    """
    between = f"{TIMES[plan][:-1]}5"  # after one commit, and before the next one
    commits = [
        Commit(time=time, logged=frozenset({time, between} if n in writes and n > plan else {time}))
        for n, time in enumerate(TIMES)
    ]
    done = {*TIMES, between} if completed else set(TIMES)

    going, reason = archivable(commits, taken_back_pins(commits, done), keep_min=keep_min, keep_max=keep_min + 1)

    first = commits[len(going)].time
    if completed or not any(n > plan for n in writes):
        assert len(going) == len(commits) - keep_min
    else:
        assert first <= between or keep_min >= len(commits) - plan
        assert between in reason or len(going) == len(commits) - keep_min


def test_the_log_files_of_a_plan_that_was_taken_back_are_found_in_the_commits(tmp_path: Path) -> None:
    """They are found by their names alone: a commit's own log files bear its own instant."""
    table = made(tmp_path)
    before = [table.write({"p0": []}) for _ in range(3)]
    plan = f"{before[-1][:-1]}9"
    for _ in range(4):
        table.write({"p0": [log_file("new", plan)]})

    found = ArchiveReading(str(table.folder), LocalStorage()).archiving(keep_min=2, keep_max=3)

    assert found.going == 2
    assert plan in found.reason


def test_a_timeline_leaves_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's lock is held for one batch, and not for ten thousand commits."""
    monkeypatch.setattr(archiving, "BATCH", 7)
    table = made(tmp_path)
    times = [table.write({"p0": []}) for _ in range(40)]
    found = ArchiveReading(str(table.folder), LocalStorage()).archiving(keep_min=2, keep_max=3)
    assert (found.commits, found.going, found.instants) == (40, 7, 7)
    for time in times[:35]:
        for file in table.timeline.glob(f"{time}*"):
            file.unlink()
    found = ArchiveReading(str(table.folder), LocalStorage()).archiving(keep_min=2, keep_max=3)
    assert (found.commits, found.going) == (5, 3)
