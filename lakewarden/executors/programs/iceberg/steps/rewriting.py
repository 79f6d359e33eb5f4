"""What compaction and clustering share: Iceberg's rewrite of data files, taken apart into the three steps.

plan      Iceberg's planner, of whose file groups those are taken that writers leave alone; nothing is written
execute   Iceberg's rewriters write the new files, which nobody sees yet
commit    after a last look Iceberg's own commit exchanges the files, all at once or in several pieces
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from lakewarden.executors.contract import NothingToDo, Plan, Step
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.exchange import Proposed, exchange
from lakewarden.executors.programs.iceberg.client.figures import figures_of
from lakewarden.executors.programs.iceberg.client.looks import Looks
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import MakeRunner
from lakewarden.executors.programs.iceberg.client.signature import signature
from lakewarden.executors.programs.iceberg.steps.file_groups import (
    FileGroup,
    MadeGroup,
    each,
    made,
    planned_groups,
    taken,
)
from lakewarden.executors.programs.iceberg.steps.writing import Writing
from lakewarden.planners.formats.iceberg.metadata.files import manifests_in
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.deletes import anchored, are_expected, kept_specs
from lakewarden.planners.formats.iceberg.rewriting.dropped import Planned, refusal
from lakewarden.planners.formats.iceberg.rewriting.groups import Thresholds, thresholds
from lakewarden.planners.formats.iceberg.writers.branches import kept_off_for_branches
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.view import TableView


class RewriteSteps(ABC):
    """The three steps, and the way back: files that were written, and never tried to commit, are deleted."""

    everything = False
    """Whether all files of a partition are rewritten, whatever they are like (`rewrite-all`)."""

    def __init__(self, table: OpenTable, options: RewriteOptions, make_runner: MakeRunner) -> None:
        self._table = table
        most = table.assignment.largest_plan
        options = options if most is None else options.model_copy(update={"max_bytes": min(options.max_bytes, most)})
        self._options = options
        self._make_runner = make_runner
        self._looks = Looks(table, options)
        self._planned_from = 0
        self._chosen: Sequence[MadeGroup] = ()
        self._written: list[MadeGroup] = []
        self._rewritten: set[str] = set()
        self._committed = 0
        self._failures: list[Exception] = []

    def plan(self) -> Plan | NothingToDo:
        """Choose among the file groups that Iceberg's planner makes. Raises YieldError if writers are at them all."""
        view, metadata, deletes = self._looks.look(), self._looks.metadata(), self._looks.deletes()
        rules = thresholds(self._options, metadata.properties, everything=self.everything)
        keeps = kept_specs(deletes, metadata, self._table.options, view.observed_at)
        planned = planned_groups(self._table, rules, self._looks, metadata, keeps=keeps)
        groups = self.worthwhile(planned, rules, metadata)
        if not groups:
            return NothingToDo(reason="Iceberg's planner finds no files that are worth a rewrite")
        avoided = self.avoided(view)
        chosen = taken(groups, avoided, self._options)
        if are_expected(deletes, metadata):
            chosen = self._anchored(chosen)
        if not chosen:
            raise YieldError(
                "writers are at every partition that is worth a rewrite",
                delay=_first_free(groups, avoided) - view.observed_at,
            )
        self._chosen = [made(self._table, group, rules) for group in chosen]
        self._planned_from = metadata.current or 0
        return Plan(instant=None, file_groups=len(chosen), bytes=sum(group.known.bytes for group in chosen))

    def _anchored(self, groups: Sequence[FileGroup]) -> Sequence[FileGroup]:
        """Return the groups without the file that must stay for the sake of deletes by equality. With several commits
        the files of the first are there when the others are made.
        """
        if self._options.partial_progress and min(len(groups), self._options.max_commits) > 1:
            return groups
        owners = {file.key: group for group in groups for file in group.files}
        files = [file for group in groups for file in group.files]
        left = anchored([group.known for group in groups], files, data_files=self._looks.data_files())
        return [owners[known.keys[0]].left_with(known) for known in left]

    @abstractmethod
    def avoided(self, view: TableView) -> Mapping[str, datetime]:
        """Return the partitions that are left alone now, each with the moment from which it may be taken."""

    def worthwhile(
        self, groups: Sequence[FileGroup], rules: Thresholds, metadata: TableMetadata
    ) -> Sequence[FileGroup]:
        """Return the groups of which the service makes something better; by default all."""
        return groups

    def execute(self, plan: Plan) -> None:
        """Write the new files without committing them. Raises the first failure of a group, unless there is partial
        progress and another group was written.
        """
        writing = Writing(self._table, self._chosen, self._make_runner, goes_on=self._options.partial_progress)
        try:
            writing.carry_out(at_a_time=self._options.max_concurrent_groups)
        finally:
            self._written = writing.written
        self._failures = writing.failures
        if self._failures and (writing.stopped or not self._written):
            raise self._failures[0]

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Exchange the files, after a last look. With partial progress a conflict loses only its piece; what is missing
        in the end makes the run a failure, and none of its commits a whole one.
        """
        self._look_again()
        pieces = self._pieces()
        for number, piece in enumerate(pieces, start=1):
            self._commit(piece, more=bool(self._failures) or number < len(pieces))
        if self._failures:
            raise self._incomplete()
        self._follow_up(frozenset(self._rewritten))
        return {"file_groups": self._committed, **figures_of(self._table)}

    def abort(self) -> None:
        """Delete the new files that nobody has tried to commit."""
        written, self._written = self._written, []
        self._discard(written)

    def _discard(self, groups: Sequence[MadeGroup]) -> None:
        """Delete the new files of groups that were not committed."""
        for group in groups:
            with on_the_way_out("delete what was written"):
                for file in each(group.java.addedFiles()):
                    self._table.java.io().deleteFile(str(file.location()))

    def _follow_up(self, partitions: frozenset[str]) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done after the data files of these partitions."""

    def _look_again(self) -> None:
        """Raise YieldError if a writer has changed rows of a planned partition since the plan, if a branch is about to
        become main, or if the snapshot from which it was planned has expired: then nobody can tell what was changed
        since. Rows that were added are in the way of nobody.
        """
        view = self._looks.look()
        with translated(Step.PLAN):
            expired = self._table.java.snapshot(self._planned_from) is None
        if expired:
            raise YieldError("the snapshot from which the rewrite was planned has expired")
        for wait in kept_off_for_branches(self._looks.metadata(), self._table.options, view.observed_at).values():
            raise YieldError(wait.reason, delay=timedelta(minutes=1))
        avoided = left_alone(view.writers, self._table.options, view.observed_at)
        partitions = frozenset[str]().union(*(group.known.partitions for group in self._written))
        for partition in sorted(partitions & avoided.keys()):
            raise YieldError(
                f"{partition or 'the table'} is left alone for a writer's sake since the rewrite was planned",
                delay=avoided[partition] - view.observed_at,
            )

    def _pieces(self) -> Sequence[Sequence[MadeGroup]]:
        """Return what is committed at a time, the groups of a partition as much together as can be."""
        if not self._options.partial_progress:
            return [tuple(self._written)]
        ordered = sorted(self._written, key=lambda group: sorted(group.known.partitions))
        size = -(-len(ordered) // self._options.max_commits)
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    def _commit(self, piece: Sequence[MadeGroup], *, more: bool) -> None:
        """Commit one piece. Its files are deleted where it is known that they were not committed."""
        self._written = [group for group in self._written if group not in piece]
        try:
            self._exchange(piece, more=more)
        except UnknownError:
            raise
        except LakewardenError as error:
            self._discard(piece)
            if not self._options.partial_progress or not isinstance(error, TemporaryError):
                raise
            self._failures.append(error)
        else:
            self._committed += len(piece)
            self._rewritten.update(*(group.known.partitions for group in piece))

    def _exchange(self, piece: Sequence[MadeGroup], *, more: bool) -> None:
        metadata = self._looks.metadata()
        planned = Planned(
            snapshot=self._planned_from,
            sequence=metadata.by_id[self._planned_from].sequence,
            left=frozenset[int]().union(*(group.known.left for group in piece)),
        )

        def look(proposed: Proposed) -> None:
            if proposed.parent == planned.snapshot:
                return  # nothing is newer than the plan
            storage = self._table.storage
            manifests = manifests_in(proposed.manifest_list, storage)
            why = refusal(planned, snapshot=proposed.id, manifests=manifests, metadata=metadata, storage=storage)
            if why is not None:
                raise YieldError(why)

        with translated(Step.EXECUTE):
            update = self._table.java.newRewrite().validateFromSnapshot(planned.snapshot)
            update.dataSequenceNumber(planned.sequence)  # deletes that were committed since must reach the new files
            none = self._table.jvm.java.util.HashSet()
            for group in piece:
                files = group.java
                update.rewriteFiles(files.rewrittenFiles(), files.danglingDVs(), files.addedFiles(), none)
            for key, value in signature(self._table.assignment, more=more).items():
                update.set(key, value)
        exchange(self._table, update, look)

    def _incomplete(self) -> Exception:
        """Return what a run ends with of which some file groups were not committed."""
        first = self._failures[0]
        if not self._committed:
            return first
        done = ", ".join(f"{name} {count}" for name, count in figures_of(self._table).items())
        return TemporaryError(
            f"{len(self._chosen) - self._committed} of {len(self._chosen)} file groups were not rewritten: {first} "
            f"(the others are committed: {done})",
            delay=first.delay if isinstance(first, TemporaryError) else timedelta(seconds=10),
        )


_Steps = TypeVar("_Steps", bound=RewriteSteps)


@contextlib.contextmanager
def undertaken(steps: _Steps) -> Iterator[_Steps]:
    """Let the steps be taken, and step back where that fails."""
    try:
        yield steps
    except Exception:
        steps.abort()
        raise


def _first_free(groups: Sequence[FileGroup], avoided: Mapping[str, datetime]) -> datetime:
    """Return when the first of the groups is left alone by writers; each has a partition that is avoided now."""
    return min(max(avoided[one] for one in group.known.partitions & avoided.keys()) for group in groups)
