"""The files that a watcher sees on a timeline become instants, with their action and the time for which they were
pending.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from live.hudi.several.timeline_watcher import Seen, Sighting, TimelineWatcher, instants, unmerged_peak

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y%m%d%H%M%S%f")[:17]


def sighted(name: str, first: float = 0, last: float = 100) -> Sighting:
    return Sighting(name=name, first=at(first), last=at(last))


@pytest.mark.parametrize(
    ("names", "action", "written"),
    [
        pytest.param([".deltacommit.requested", ".deltacommit.inflight"], "deltacommit", True, id="a write"),
        pytest.param([".commit.requested", ".inflight"], "commit", True, id="a write of copy on write"),
        pytest.param([".inflight"], "commit", True, id="a write whose request was not seen"),
        pytest.param([".compaction.requested", ".compaction.inflight"], "compaction", False, id="a compaction"),
        pytest.param([".clustering.requested"], "clustering", False, id="a clustering"),
        pytest.param([".logcompaction.requested"], "logcompaction", False, id="a log compaction"),
    ],
)
def test_an_instant_is_what_its_plan_says_while_pending_and_when_completed(
    names: list[str], action: str, written: bool
) -> None:
    """A completed compaction is called a commit, a log compaction a deltacommit. Only the plan shows the action."""
    pending = [sighted(stamp(0) + name, 0, 4) for name in names]
    ends = {"compaction": "commit", "clustering": "replacecommit", "logcompaction": "deltacommit"}
    completed = sighted(f"{stamp(0)}_{stamp(4)}.{ends.get(action, action)}", 4, 90)

    [left] = instants(pending)
    [done] = instants([completed, *pending])

    assert (left.action, left.written, left.completed, left.ended) == (action, written, None, at(4))
    assert (done.action, done.written, done.completed, done.ended) == (action, written, at(4), at(4))


def test_what_is_no_instant_and_what_shares_one_is_left_out() -> None:
    """Savepoints have the instant of the commit that they hold."""
    names = ["history", f"{stamp(1)}_{stamp(2)}.savepoint", f"{stamp(1)}.savepoint.inflight", "metadata.json"]

    assert instants(map(sighted, names)) == ()


def seen(action: str, begun: float, completed: float | None) -> Seen:
    done = None if completed is None else at(completed)
    return Seen(instant=stamp(begun), action=action, begun=at(begun), ended=done or at(99), completed=done)


def test_a_write_waits_until_a_compaction_is_complete_that_was_planned_after_it() -> None:
    """A write in flight at the plan waits for the next compaction."""
    writes = [seen("deltacommit", n, n + 0.5) for n in range(4)]
    in_flight = seen("deltacommit", 4, 6)
    first, second = seen("compaction", 5, 8), seen("compaction", 9, 10)

    assert unmerged_peak([*writes, in_flight, first, second]) == 5
    assert unmerged_peak([*writes, in_flight, first, second, seen("deltacommit", 8.2, 8.5)]) == 5
    assert unmerged_peak([*writes, seen("deltacommit", 5.5, None), seen("clustering", 6, 7)]) == 4
    assert unmerged_peak([]) == 0


def test_the_timeline_is_looked_at_until_the_end_and_what_vanishes_is_remembered(tmp_path: Path) -> None:
    """Archived instants are gone from the folder. The remaining ones are read from the folder."""
    watcher = TimelineWatcher(tmp_path)
    watcher.start()
    timeline = tmp_path / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    vanishing = timeline / f"{stamp(1)}.deltacommit.requested"
    for name in (vanishing.name, f"{stamp(2)}.clustering.requested"):
        (timeline / name).touch()
    pause = threading.Event()
    for _ in range(100):
        if len(watcher.seen()) == 2:
            break
        pause.wait(0.05)
    vanishing.unlink()
    watcher.stop()

    assert [one.action for one in watcher.seen()] == ["deltacommit", "clustering"]
    assert watcher.left() == [f"{stamp(2)} clustering"]
