"""Which commits may leave the active timeline: never those that somebody still looks for there."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.archiving import (
    Commit,
    Pin,
    archivable,
    checkpoints,
    overtaken_pins,
    read_archiving,
)
from lakewarden.planners.formats.hudi.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.service_options import ArchiveOptions, CleanOptions, CleanPolicy
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi_table import HudiTable

TIMES = [f"2026010100{minute:02}00000" for minute in range(40)]
WRITERS = st.frozensets(st.sampled_from(["query a", "query b", "deltastreamer.checkpoint.key"]))
COMMITS = st.lists(WRITERS, max_size=40).map(
    lambda found: [Commit(time=TIMES[n], checkpoints=one) for n, one in enumerate(found)]
)


@given(commits=COMMITS, keep_min=st.integers(2, 20), more=st.integers(1, 10))
def test_the_newest_checkpoint_of_every_writer_stays(commits: list[Commit], keep_min: int, more: int) -> None:
    """Whatever is archived, each identifier's last commit is among those that stay, and so are the newest commits."""
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
        ({"deltastreamer.checkpoint.key": "", "schema": "{}"}, set()),
    ],
)
def test_a_commit_tells_whose_progress_it_holds(metadata: dict[str, str], writers: set[str]) -> None:
    """Streaming queries by their identifier, Hudi Streamer by its key; an empty value holds nothing."""
    assert checkpoints(metadata) == writers


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return HudiTable(tmp_path / "t", version=request.param, clock=ManualClock(), zone=UTC)


def _commits(table: HudiTable, number: int) -> list[str]:
    times = []
    for _ in range(number):
        times.append(table.begin_write())
        table.commit_write(times[-1])
    return times


def _read(table: HudiTable) -> tuple[int, str]:
    archiving = read_archiving(str(table.folder), LocalStorage(), keep_min=2, keep_max=3)
    return archiving.going, archiving.reason


def test_without_pins_all_but_the_newest_go(table: HudiTable) -> None:
    """And with them the cleans and rollbacks between them."""
    _commits(table, 3)
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen="")
    _commits(table, 3)
    archiving = read_archiving(str(table.folder), LocalStorage(), keep_min=2, keep_max=3)
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
    """The commit that was saved, too."""
    times = _commits(table, 6)
    table.savepoint(times[1], {"p0": ("a.parquet",)})
    going, reason = _read(table)
    assert going == 1
    assert f"savepoint {times[1]}" in reason


def test_what_the_last_clean_retained_stays(table: HudiTable) -> None:
    """The next clean goes on from there, and need not look through the whole table."""
    times = _commits(table, 6)
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen=times[-1], retained=times[2])
    going, reason = _read(table)
    assert going == 2
    assert f"retained everything since {times[2]}" in reason


def test_a_replacement_stays_until_a_clean_has_removed_what_it_replaced(table: HudiTable) -> None:
    """Without it readers would see the replaced files again."""
    _commits(table, 1)
    replacing = table.begin_write("replacecommit")
    table.commit_write(replacing, "replacecommit")
    times = _commits(table, 4)
    assert _read(table)[0] == 1
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen=times[-1], retained=times[-1])
    assert _read(table)[0] == 4


def test_a_metadata_table_that_was_never_compacted_holds_everything(table: HudiTable) -> None:
    """So Hudi says as well; a person reads it."""
    _commits(table, 6)
    HudiTable(table.home / "metadata", version=table.version, clock=table.clock, zone=UTC)
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
    """Requested at 10 and completed at 20: until a compaction planned after that has merged it, and nobody reads what
    was before.
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
