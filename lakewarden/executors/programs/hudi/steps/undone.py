"""Writes that are rolled back after a rewrite was planned, as by `CALL rollback_to_instant`, and columns changed since.

Hudi rolls a completed write back although a pending plan names its files (run, 1.2.0). A rewrite that has read them
brings the rows of an undone write back, and loses those that an undone delete had dropped. Hudi commits it. So a commit
looks for rollbacks while the table's lock is held. A rollback that begins later is one of a write that is compacted.

A plan that is older than an `ALTER TABLE` with `hoodie.schema.on.read.enable` is not executed either. Hudi writes its
files by the new columns, and readers read them by the columns at the plan's instant: a renamed column is NULL, and a
table with a wider one cannot be read (run).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.observing import rollback_target
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.indexes.metadata_check import instants_of
from lakewarden.planners.formats.hudi.metadata.names import Action
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.model.errors import LakewardenError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView


class UndoneError(YieldError):
    """What a rewrite has read, or is about to read, was rolled back, or is about to be, or has other columns now."""


def completed_writes(view: TableView) -> frozenset[str]:
    """Return the completed writes that the timeline shows. A rewrite that begins now may read each of them."""
    instants = view.timeline.instants
    return frozenset(one.time for one in instants if not one.pending and one.stands_for is InstantKind.WRITE)


def writes_named_by(files: Collection[DataFile]) -> frozenset[str]:
    """Return the instants in the names of a plan's files. Below table version 8 a log file bears that of its base
    file. A rollback does not delete it there, but appends to it.
    """
    return frozenset(time for file in files for time in instants_of(file.name) if time is not None)


def rollbacks_since(view: TableView, plan: str) -> Sequence[Instant]:
    """Return the rollbacks that were completed since a plan was made, or are pending."""
    rollbacks = (one for one in view.timeline.instants if one.action == Action.ROLLBACK)
    return [one for one in rollbacks if one.pending or (one.completed_time or one.time) > plan]


def _columns_changed(table: OpenTable) -> int | None:
    """Return the instant of the newest schema that is read by the ids of columns. None if there is none."""
    schemas = None
    with contextlib.suppress(FileNotFoundError):
        schemas = next(table.storage.entries(f"{table.assignment.location}/.hoodie/.schema"), None)
    if schemas is None:  # as in nearly every table
        return None
    with translated(Step.PLAN):
        schema = table.client.evolved_schema()
    return None if schema is None else int(schema.schemaId())


def require_not_undone(table: OpenTable, view: TableView, plan: str, writes: Collection[str]) -> None:
    """Raise UndoneError if one of the `writes` was rolled back since a plan was made, or is about to be, or if columns
    were changed since. Raise TemporaryError if the plan of a rollback cannot be read.
    """
    changed = _columns_changed(table)
    if changed is not None and changed > int(plan):
        raise UndoneError(
            f"columns were changed at {changed}, since plan {plan} was made: a new plan is made with them"
        )
    for one in rollbacks_since(view, plan):
        undone = rollback_target(table.assignment, one.time, table.storage).time
        if undone in writes:
            how = "is being" if one.pending else "was"
            raise UndoneError(
                f"write {undone} {how} rolled back since plan {plan} was made: a new plan reads without it"
            )


@contextlib.contextmanager
def reading(table: OpenTable, plan: str, writes: Collection[str]) -> Iterator[None]:
    """Let a rewrite read files that the `writes` have made. If that fails because one of them was rolled back
    meanwhile, raise UndoneError in place of Java's "file not found". To be used for what commits nothing.
    """
    try:
        yield
    except YieldError:
        raise
    except LakewardenError as error:
        try:
            require_not_undone(table, table.view(), plan, writes)
        except UndoneError as undone:
            raise undone from error
        except LakewardenError:
            pass  # the first error says more
        raise
