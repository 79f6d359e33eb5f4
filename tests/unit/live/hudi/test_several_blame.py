"""The cause of a failed commit, and the differences from the daemon's account."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from lakewarden.demo.writers.orders import Batch, Ending
from lakewarden.service.http.schemas import RunBody
from live.hudi.several.blame import Blame, Told, disagreements, judge
from live.hudi.several.timeline_watcher import Seen
from tests.support.daemon.run_bodies import NOON, a_run_told


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y%m%d%H%M%S%f")[:17]


def failed(begun: float, answered: float, message: str = "HoodieIOException: what now") -> Batch:
    return Batch(number=7, rows=(), begun=at(begun), ending=Ending.FAILED, answered=at(answered), message=message)


def seen(action: str, begun: float, completed: float | None = None, *, until: float = 99) -> Seen:
    done = None if completed is None else at(completed)
    return Seen(instant=stamp(begun), action=action, begun=at(begun), ended=done or at(until), completed=done)


def lost_to(own: float, other: float) -> str:
    """Return the message of Hudi 1.2.0."""
    return (
        ": org.apache.hudi.exception.HoodieWriteConflictException: java.util.ConcurrentModificationException: Cannot "
        "resolve conflicts for overlapping writes between first operation = ConcurrentOperation(actionState=INFLIGHT, "
        f"actionType=deltacommit, instantTime={stamp(own)}), second operation = ConcurrentOperation("
        f"actionState=COMPLETED, actionType=deltacommit, instantTime={stamp(other)})\n\tat org.apache.hudi"
    )


def lost_to_as_of_old(own: float, other: float) -> str:
    """Return the message of releases before 1.2 (`ConcurrentOperation.toString`)."""
    return (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o99.save.\n"
        ": org.apache.hudi.exception.HoodieWriteConflictException: java.util.ConcurrentModificationException: Cannot "
        f"resolve conflicts for overlapping writes between first operation = {{actionType=deltacommit, "
        f"instantTime={stamp(own)}, actionState=INFLIGHT'}}, second operation = {{actionType=clustering, "
        f"instantTime={stamp(other)}, actionState=REQUESTED'}}\n"
    )


def run(started: float, ended: float | None) -> RunBody:
    return a_run_told(service="archive", started_at=at(started), ended_at=None if ended is None else at(ended))


CLUSTERING = "HoodieClusteringUpdateException: Not allowed to update the clustering file group"
OWN, OTHER = seen("deltacommit", 11), seen("deltacommit", 10, 15)


@pytest.mark.parametrize(
    ("batch", "others", "runs", "ours"),
    [
        pytest.param(failed(10, 20, lost_to(11, 12)), [seen("clustering", 12)], [], True, id="lost to our plan"),
        pytest.param(failed(10, 20, lost_to_as_of_old(11, 12)), [seen("clustering", 12)], [], True, id="1.1, our plan"),
        pytest.param(
            failed(10, 20, lost_to_as_of_old(11, 10)), [OTHER, seen("clean", 12)], [], False, id="1.1, theirs"
        ),
        pytest.param(failed(10, 20, lost_to(11, 2)), [seen("compaction", 2, 15)], [], True, id="lost to our commit"),
        pytest.param(failed(10, 20, lost_to(11, 10)), [OTHER], [], False, id="lost to another writer"),
        pytest.param(
            failed(10, 20, lost_to(11, 10)),
            [OTHER, seen("clustering", 12)],
            [run(9, 19)],
            False,
            id="lost to another writer while we were there",
        ),
        pytest.param(failed(10, 20, CLUSTERING), [seen("clustering", 2, 12)], [], True, id="met our clustering"),
        pytest.param(failed(10, 20), [seen("logcompaction", 2, 12)], [], True, id="unexplained, our commit"),
        pytest.param(failed(10, 20), [seen("clean", 19)], [], True, id="unexplained, our plan"),
        pytest.param(failed(10, 20), [seen("clean", 2, 9), seen("clean", 21)], [], False, id="before and after"),
        pytest.param(failed(10, 20), [OTHER], [run(1, 12)], True, id="unexplained, an archive of ours"),
        pytest.param(failed(10, 20), [OTHER], [run(1, 9), run(21, None)], False, id="unexplained, alone"),
    ],
)
def test_a_failure_is_ours_if_it_lost_to_us_or_if_it_is_unexplained_and_we_were_there(
    batch: Batch, others: list[Seen], runs: list[RunBody], ours: bool
) -> None:
    """A write lasts from its beginning to the answer. Hudi's message counts before what was merely there."""
    [verdict] = judge({"a": [batch]}, [OWN, *others], runs)

    assert verdict.ours is ours
    assert (verdict.writer, verdict.batch, verdict.instant) == ("a", 7, OWN.instant)


def test_failed_commits_of_one_moment_left_an_instant_each() -> None:
    """The message names its own instant. Without one it is the oldest remaining instant of the batch's time."""
    first, second = seen("deltacommit", 11), seen("deltacommit", 12)
    unnamed, named = failed(10.5, 20), failed(10, 20, lost_to(11, 3))

    verdicts = judge({"a": [unnamed], "b": [named]}, [seen("clustering", 3), first, second], [])

    assert {verdict.writer: verdict.instant for verdict in verdicts} == {"a": second.instant, "b": first.instant}


def test_a_commit_that_failed_before_it_began_a_write_left_nothing() -> None:
    """An instant that another writer completed meanwhile is not its own."""
    [verdict] = judge({"a": [failed(10, 20)]}, [seen("deltacommit", 11, 15)], [])

    assert verdict.instant is None


VERDICT = Blame(
    writer="a", batch=7, begun=at(10).isoformat(), instant=stamp(11), ours=True, why="it lost to clustering"
)
TOLD = Told(instant=stamp(11), ours=True, reason="its heartbeat is gone")


@pytest.mark.parametrize(
    ("verdicts", "told", "times"),
    [
        pytest.param([VERDICT], [TOLD], 0, id="the same"),
        pytest.param([VERDICT], [], 1, id="untold"),
        pytest.param([], [TOLD], 1, id="of no writer"),
        pytest.param([VERDICT], [replace(TOLD, ours=False)], 1, id="denied"),
        pytest.param([replace(VERDICT, ours=False)], [TOLD], 1, id="claimed"),
        pytest.param([replace(VERDICT, instant=None)], [], 0, id="nothing to be seen"),
    ],
)
def test_the_daemon_must_tell_of_the_same_failures_with_the_same_blame(
    verdicts: list[Blame], told: list[Told], times: int
) -> None:
    """If nothing was left on the timeline, there is nothing to report."""
    assert len(disagreements(verdicts, told)) == times
