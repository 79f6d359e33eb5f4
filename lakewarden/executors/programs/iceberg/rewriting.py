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
from typing import Any, TypeVar

from lakewarden.executors.contract import NothingToDo, Plan, Step
from lakewarden.executors.programs.iceberg.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.figures import figures_of
from lakewarden.executors.programs.iceberg.file_groups import FileGroup, planned_groups, taken
from lakewarden.executors.programs.iceberg.looks import Looks
from lakewarden.executors.programs.iceberg.opened import OpenTable
from lakewarden.executors.programs.iceberg.runners import MakeRunner
from lakewarden.executors.programs.iceberg.signature import signature
from lakewarden.executors.programs.iceberg.writing import Writing
from lakewarden.planners.formats.iceberg.cold import left_alone
from lakewarden.planners.formats.iceberg.groups import Thresholds, thresholds
from lakewarden.planners.formats.iceberg.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.service_options import RewriteOptions
from lakewarden.planners.model.errors import TemporaryError, UnknownError, YieldError
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
        self._chosen: Sequence[FileGroup] = ()
        self._written: list[FileGroup] = []
        self._committed = 0
        self._failures: list[Exception] = []

    def plan(self) -> Plan | NothingToDo:
        """Choose among the file groups that Iceberg's planner makes. Raises YieldError if writers are at them all."""
        view, metadata = self._looks.look(), self._looks.metadata()
        rules = thresholds(self._options, metadata.properties, everything=self.everything)
        groups = self.worthwhile(planned_groups(self._table, rules, self._looks.files), rules, metadata)
        if not groups:
            return NothingToDo(reason="Iceberg's planner finds no files that are worth a rewrite")
        avoided = self.avoided(view)
        self._chosen = taken(groups, avoided, self._options)
        if not self._chosen:
            raise YieldError(
                "writers are at every partition that is worth a rewrite",
                delay=_first_free(groups, avoided) - view.observed_at,
            )
        self._planned_from = metadata.current or 0
        return Plan(instant=None, file_groups=len(self._chosen), bytes=sum(group.known.bytes for group in self._chosen))

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
        self._follow_up()
        return {"file_groups": self._committed, **figures_of(self._table)}

    def abort(self) -> None:
        """Delete the new files that nobody has tried to commit."""
        written, self._written = self._written, []
        if written:
            with on_the_way_out("delete what was written"):
                manager = self._commit_manager(more=False)
                for group in written:
                    manager.abortFileGroup(group.java)

    def _follow_up(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done after the data files."""

    def _look_again(self) -> None:
        """Raise YieldError if a writer has changed rows of a planned partition since the plan, or if the snapshot from
        which it was planned has expired: then nobody can tell what was changed since. Rows that were added are in the
        way of nobody.
        """
        view = self._looks.look()
        with translated(Step.PLAN):
            expired = self._table.java.snapshot(self._planned_from) is None
        if expired:
            raise YieldError("the snapshot from which the rewrite was planned has expired")
        avoided = left_alone(view.writers, self._table.options, view.observed_at)
        partitions = frozenset[str]().union(*(group.known.partitions for group in self._written))
        for partition in sorted(partitions & avoided.keys()):
            raise YieldError(
                f"{partition or 'the table'} is left alone for a writer's sake since the rewrite was planned",
                delay=avoided[partition] - view.observed_at,
            )

    def _pieces(self) -> Sequence[Sequence[FileGroup]]:
        """Return what is committed at a time, the groups of a partition as much together as can be."""
        if not self._options.partial_progress:
            return [tuple(self._written)]
        ordered = sorted(self._written, key=lambda group: sorted(group.known.partitions))
        size = -(-len(ordered) // self._options.max_commits)
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    def _commit(self, piece: Sequence[FileGroup], *, more: bool) -> None:
        """Commit one piece. From here on its files are Iceberg's: it deletes them where it knows that they were not
        committed, and so it is never we who do.
        """
        self._written = [group for group in self._written if group not in piece]
        try:
            with translated(Step.COMMIT):
                groups = self._table.jvm.java.util.HashSet([group.java for group in piece])
                self._commit_manager(more=more).commitOrClean(groups)
        except UnknownError:
            raise
        except TemporaryError as error:
            if not self._options.partial_progress:
                raise
            self._failures.append(error)
        else:
            self._committed += len(piece)

    def _commit_manager(self, *, more: bool) -> Any:
        properties = self._table.java_map(signature(self._table.assignment, more=more))
        use_starting_sequence_number = True  # deletes by equality that were committed since must reach the new files
        return self._table.jvm.org.apache.iceberg.actions.RewriteDataFilesCommitManager(
            self._table.java, self._planned_from, use_starting_sequence_number, properties
        )

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
