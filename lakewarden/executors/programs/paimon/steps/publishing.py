"""Gives a snapshot its place in the table: it replaces nothing, and follows the snapshot of the last look."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.executors import points
from lakewarden.executors.points import Point
from lakewarden.executors.programs.paimon.client.locks import held
from lakewarden.executors.programs.paimon.client.opened import OpenTable, on_the_way_out
from lakewarden.executors.programs.paimon.steps.disk import table_files
from lakewarden.executors.programs.paimon.steps.rewriting import (
    SNAPSHOTS,
    Proposal,
    folder_of_snapshots,
    require_exclusive_creation,
)
from lakewarden.planners.formats.paimon.metadata.files import content_of
from lakewarden.planners.formats.paimon.metadata.heads import HINT
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot, parse_snapshot
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.model.errors import UnknownError, YieldError

_WAITS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3) * 6
"""The seconds to wait after each attempt to commit. Paimon's own clients try ten times (`commit.max-retries`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitBase:
    """What a commit follows: the newest snapshot of the table, and the number of its oldest one."""

    newest: Snapshot
    oldest: int


def base_of(look: Look, planned: Schema | None) -> CommitBase:
    """Return what a commit on the table follows. Raises YieldError if the schema is not the planned one."""
    history = look.facts.history
    if history.newest is None or look.facts.schema != planned:
        raise YieldError("the schema or an option of the table was changed since the plan was made")
    return CommitBase(newest=history.newest, oldest=history.oldest)


def base_now(table: OpenTable, planned: Schema | None) -> CommitBase:
    """Return what a commit follows, by a look at the whole table. Raises YieldError if the schema was changed, or if
    something blocks the service by now.
    """
    return base_of(table.free_look(YieldError), planned)


def published(
    table: OpenTable,
    look: Callable[[], CommitBase],
    make: Callable[[Snapshot], Proposal],
    *,
    attempts: int = len(_WAITS),
) -> Proposal:
    """Commit. `look` looks at the whole table, and returns what to follow, or raises if nothing may be committed.
    `make` returns the snapshot that is to follow. Both are called again if a writer was faster.

    Raises YieldError if writers were faster all the time, and what publishing raises.
    """
    require_exclusive_creation(table)
    base = look()
    for wait in _WAITS[:attempts]:
        proposal = make(base.newest)
        if _publish(table, proposal, base, look):
            return proposal
        time.sleep(wait)
        base = look()
    raise YieldError(f"writers were faster during all of {attempts} attempts to commit")


def _publish(table: OpenTable, proposal: Proposal, base: CommitBase, look: Callable[[], CommitBase]) -> bool:
    """Give the snapshot its place, if it follows the newest one. That is the last look, and the commit. Both are under
    the lock of the table's catalog, if its writers commit under that.
    """
    with held(table.spark, table.java) as require_held, folder_of_snapshots(table) as folder:
        last = look()
        if last.newest != base.newest or proposal.snapshot.id != base.newest.id + 1:
            return False
        points.reach(Point.PROPOSED, run=table.assignment.run, service=table.assignment.service)
        table.require_jvm()
        require_held()
        done = folder.create(proposal.snapshot, proposal.content)
        if done:
            _require_followed(table, last, proposal.snapshot)
            with on_the_way_out("write the hint of the newest snapshot"):
                folder.hint(proposal.snapshot)
                if table.snapshot(proposal.snapshot.id) is None:  # rolled back since: the hint would mislead
                    table_files(table).delete([f"{table.table.location}/{SNAPSHOTS}/{HINT}"])
        return done


def _require_followed(table: OpenTable, base: CommitBase, ours: Snapshot) -> None:
    """Delete our snapshot and raise UnknownError if the table was rolled back after the last look: it has the rows that
    the rollback took away, and not those that were written since. The files that it names stay.

    A base that is gone with all older snapshots has expired: an expiry begins with the oldest one.
    """
    snapshot = table.snapshot(base.newest.id)
    if snapshot == base.newest or (snapshot is None and table.snapshot(base.oldest) is None):
        return
    why = f"the table was rolled back while snapshot {ours.id} was committed"
    if table.snapshot(ours.id + 1) is not None:
        raise UnknownError(f"{why}, and a writer has followed it: roll the table back again")
    file = f"{table.table.location}/{SNAPSHOTS}/snapshot-{ours.id}"
    if table.snapshot(ours.id) == ours:
        table.java.fileIO().deleteQuietly(table.paimon.fs.Path(file))
    if table.snapshot(ours.id) == ours:
        raise UnknownError(f"{why}, and {file} cannot be deleted: delete it before a writer commits")
    raise UnknownError(f"{why}: the snapshot was deleted again")


def committed(table: OpenTable, proposal: Proposal) -> Snapshot:
    """Return the snapshot that was committed, as the table has it. Raises UnknownError if it is not ours any more."""
    file = f"{table.table.location}/{SNAPSHOTS}/snapshot-{proposal.snapshot.id}"
    snapshot = parse_snapshot(content_of(file, table.storage), file=file, named=proposal.snapshot.id)
    if snapshot.user != table.user:
        raise UnknownError(
            f"snapshot {snapshot.id} was ours, and is of the commit user {snapshot.user[:80]} now: a writer without "
            "hard links has replaced it"
        )
    return snapshot
