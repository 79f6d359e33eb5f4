"""The fault points of a run. A test can kill or freeze a process exactly there.

    K0 leased ─ K1 planned ─ K2 stored ─ K3 executing ─ K4 executed
    ─ K5 permitted ─ K6 committed ─ K7 settled ─ K8 notified

If a commit consists of several acts, there are points between them. Only some programs pass those.

The points stand in the product's own code, so that a kill hits exactly the moment that a rule is about. Only a process
that `tests.support.doubles` has started has a watcher. In every other process passing a point does nothing.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from enum import StrEnum

from lakewarden.executors.contract import Assignment, Plan
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Step


class Point(StrEnum):
    """The points in the order in which a run passes them. The worker passes those with the mark (w). The daemon passes
    the others.
    """

    LEASED = "leased"
    """K0: the lease is taken, and no worker knows the run."""
    PLANNED = "planned"
    """K1 (w): the plan is on the timeline, and the daemon does not know its instant."""
    LOOKING = "looking"
    """(w), before K1: the plan is on the timeline, the table's lock is held, and the writers were not observed
    since."""
    WITHDRAWING = "withdrawing"
    """(w): the plan is given up, and still on the timeline. The table's lock is held, but not by a clean. A rewrite
    that was executed passes it again when its files are undone."""
    WRITTEN = "written"
    """(w), between K5 and K6: a clustering has written its files and committed none."""
    STORED = "stored"
    """K2: the instant is in the store, and nothing is executed."""
    EXECUTING = "executing"
    """K3 (w): the permit to execute was granted, and the step begins."""
    EXECUTED = "executed"
    """K4 (w): the new files are written and not committed."""
    PERMITTED = "permitted"
    """K5: the permit to commit is in the store, and the worker has not received it."""
    COMMITTED = "committed"
    """K6 (w): the instant is completed, and the daemon does not know it."""
    SETTLED = "settled"
    """K7: the timeline was read, and the result of the run is not in the store."""
    NOTIFIED = "notified"
    """K8: the result of the run is in the store, and no listener was notified."""
    SAVED = "saved"
    """(w), between K5 and K6: a savepoint is complete, the table's lock is held, and no expired savepoint is
    removed."""
    DROPPED = "dropped"
    """(w), between K5 and K6: the catalog does not list the deleted partitions any more, and no note says so. In a
    directory the folder of the partition is at its place."""
    LISTED = "listed"
    """(w), between K5 and K6: the metastore lists a partition of a directory, and what else its policy asks for is not
    done."""
    MARKED = "marked"
    """(w), between K5 and K6: a partition of a directory has its marker, and what else its policy asks for is not
    done."""
    PROPOSED = "proposed"
    """(w), between K5 and K6: a rewrite's snapshot is written and checked, and the table does not have it."""
    EXCHANGED = "exchanged"
    """(w), between K5 and K6: a partition's folder was exchanged for a new one, and the old one was not looked at."""
    POINTED = "pointed"
    """(w), between K5 and K6: the metastore leads readers of a partition to another folder."""
    COPIED = "copied"
    """(w), between K5 and K6: a new file is in the partition, beside the old ones that it replaces. It is passed once
    for each file."""
    PUBLISHED = "published"
    """(w), between K5 and K6: a partition has its new files for good, and none of its old files is deleted."""
    EXPIRING = "expiring"
    """(w), between K5 and K6: the table was checked for the last time before its snapshots expire."""
    EXPIRED = "expired"
    """(w), between K5 and K6: the snapshots are expired, and none of their files is deleted."""
    DELETING = "deleting"
    """(w), between K5 and K6: some of the listed files are deleted. It is passed once for each batch."""
    ARCHIVED = "archived"
    """(w), between K5 and K6: what Hudi's archive leaves behind is archived, the table's lock is held, and some of its
    files are still on the active timeline. It is passed once for each file."""
    REBUILDING = "rebuilding"
    """(w), between K5 and K6: the metadata table is about to be removed from the table's properties, is removed, is
    deleted, and is made again. It is passed each time."""


class Watcher:
    """Is told what a process does, in the thread that does it. This one does nothing."""

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Note that a run passes a point. May raise TemporaryError to make the step fail."""

    def sees(self, step: Step, plan: Plan, assignment: Assignment) -> AbstractContextManager[None]:
        """Return a context manager around a step that a worker takes."""
        return contextlib.nullcontext()

    def session_is_up(self, *, jvm: int) -> None:
        """Note that the session is up. `jvm` is the process id of the worker's JVM."""


class _Watched:
    by = Watcher()


def watch_by(watcher: Watcher) -> None:
    """Set the watcher of this process. Its entry point calls this once, before anything else runs."""
    _Watched.by = watcher


def reach(point: Point, *, run: str, service: str) -> None:
    """Pass a point. Raises TemporaryError if the watcher wants the step to fail."""
    _Watched.by.reach(point, run=run, service=service)


def watched(step: Step, plan: Plan, assignment: Assignment) -> AbstractContextManager[None]:
    """Return the watcher's context manager around a step."""
    return _Watched.by.sees(step, plan, assignment)


def session_is_up(*, jvm: int) -> None:
    """Tell the watcher the process id of the worker's JVM."""
    _Watched.by.session_is_up(jvm=jvm)


# Which runs of this process were cancelled, for programs that do their work outside of Spark's jobs.

_CANCELLED: set[RunId] = set()


def note(run: RunId) -> None:
    """Remember that a run was cancelled."""
    _CANCELLED.add(run)


def forget(run: RunId) -> None:
    """Forget a run that has ended."""
    _CANCELLED.discard(run)


def require_wanted(run: RunId) -> None:
    """Raise TemporaryError if the run was cancelled. A program asks this between two pieces of its work."""
    if run in _CANCELLED:
        raise TemporaryError("the run was cancelled")
