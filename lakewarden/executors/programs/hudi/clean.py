"""Clean: the deletion of file versions that are not needed any more. Its execution is joined with its commit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from lakewarden.executors.contract import Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, ProgramSteps, program
from lakewarden.executors.programs.hudi.steps.clean_slices import schedule_clean
from lakewarden.planners.formats.hudi.deletion import guard
from lakewarden.planners.formats.hudi.deletion.readers import needed_by
from lakewarden.planners.formats.hudi.metadata.heartbeats import silent_for
from lakewarden.planners.formats.hudi.metadata.plans import HudiPlan
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, CleanPolicy
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, Service, State, Step
from lakewarden.planners.storage.content import bytes_of


def settings(options: CleanOptions) -> dict[str, str]:
    """Return what a clean sets: which versions stay, and a trigger of one commit.

    A clean that finds nothing leaves no instant. So the next one looks through the same commits again, and they cannot
    be archived. Hudi's empty clean, once an hour, moves both on.
    """
    counted = {
        "hoodie.clean.commits.retained": options.commits_retained,
        "hoodie.clean.fileversions.retained": options.file_versions_retained,
        "hoodie.clean.hours.retained": options.hours_retained,
        "hoodie.clean.max.commits.to.clean": options.max_commits_to_clean,
    }
    return {
        "hoodie.clean.policy": CleanPolicy(options.policy).value,
        "hoodie.clean.incremental.enabled": str(options.incremental).lower(),
        **{key: str(value) for key, value in counted.items() if value is not None},
        "hoodie.write.empty.clean.interval.hours": "1",
        "hoodie.clean.trigger.strategy": "NUM_COMMITS",
        "hoodie.clean.trigger.max.commits": "1",
    }


_PLANS_NONE = False


class CleanSteps(ProgramSteps[CleanOptions]):
    """The steps, and the abort."""

    def __init__(self, table: OpenTable, options: CleanOptions) -> None:
        super().__init__(table, options)
        self._ours: Sequence[str] = ()

    def plan(self) -> Plan | None:
        """Take up the unfinished cleans, also those of others. If there is none, plan a new one.

        Hudi executes every pending clean in one call, the oldest first. So there is no choice, and their deletions are
        reported together. What they retain together is what the one retains that retains least.

        A plan of a run that was killed before it withdrew it bears that run's name, and is ours from now on.
        """
        pending = self._pending()
        instants = [clean.time for clean in pending]
        if instants:
            self._table.refuse_foreign_plans()  # they stay for an operator to judge
            self._ours = [clean.time for clean in pending if clean.author and clean.state is State.REQUESTED]
        else:
            instant = schedule_clean(self._table, self._options)
            if instant is None:
                return None
            self._ours = instants = [instant]
            if not self._spare_folders(instant):
                return None
        sizes = [self._table.clean_size(instant) for instant in instants]
        files = sum(size.files for size in sizes)
        paths = itertools.chain.from_iterable(map(self._table.clean_paths, instants))
        retained = [self._table.retained_by(instant) for instant in instants]
        return Plan(
            instant=instants[0],
            file_groups=sizes[0].file_groups,
            ends_with_run=instants == self._ours,
            retained=None if None in retained else max(filter(None, retained)),
            files_to_delete=files,
            bytes_to_delete=bytes_of(paths, self._table.storage),
            partitions_to_delete=sum(size.partitions for size in sizes),
            files_in_table=self._files_in_table(files, begun=any(clean.state is State.INFLIGHT for clean in pending)),
        )

    def _files_in_table(self, files_to_delete: int, *, begun: bool) -> int | None:
        """Return how many data files the table has, if asked. A clean that was begun may have deleted some already, and
        the table must not wait for an operator because of that. So they are counted once more.
        """
        count = self._table.files_if_asked(files_to_delete)
        return count if count is None or not begun else count + files_to_delete

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete, after a last check of everything that may need the files."""
        self._table.refuse_foreign_plans()  # before the guard, which may withdraw a plan that an operator has to judge
        for clean in self._pending():
            if not self._spare_folders(clean.time):
                raise YieldError(f"clean {clean.time} names only folders, which must stay: its plan was withdrawn")
        self._guard()
        self._table.before_a_commit()
        self._roll_back_the_dead()
        with translated(Step.COMMIT):
            metadata = self._table.client.java.clean(_PLANS_NONE)
            return {"files_deleted": int(metadata.getTotalFilesDeleted()) if metadata is not None else 0}

    def abort(self) -> None:
        """Withdraw the plans of ours that were not begun."""
        for instant in self._ours:
            with on_the_way_out("withdraw the plan"):
                self._table.reach(Point.WITHDRAWING)
                self._table.client.withdraw(instant)

    def _pending(self) -> Sequence[Instant]:
        return self._table.view().timeline.pending(Service.CLEAN)

    def _spare_folders(self, clean: str) -> bool:
        """Let a clean delete the files that it names, and no folder. False if that leaves nothing of its plan.

        Hudi deletes a folder with everything in it at that time, including rows that were written after the plan and
        rows that are being written. The files that the plan names do not change.
        """
        if not self._table.clean_size(clean).folders:
            return True
        with translated(Step.PLAN), self._table.client.locked():
            return self._table.client.spare_folders(clean)

    def _guard(self) -> None:
        """Raise if a file of any pending clean is part of the table as it is now, is needed by a pending plan, is held
        by a savepoint, or was not read yet by a declared reader. A superseded file is part of the table again if its
        successor was undone: by a restore, or by the rollback of a commit.

        An overlapping plan that was not begun is withdrawn, or the next cleaner would execute it.
        """
        location, storage = self._table.assignment.location, self._table.storage
        for clean in self._pending():
            seen = self._table.observations.seen
            overlaps = guard.clean_overlaps(location, storage, instant=clean.time, known=seen, more=self._newest)
            unread = self._unread(clean.time)
            if not overlaps and unread is None:
                continue
            sentence = f"clean {clean.time} would delete "
            sentence += f"{overlaps[0].file.name}: {overlaps[0].reason}" if overlaps else f"{unread}"
            if clean.state is not State.REQUESTED:
                raise PermanentError(
                    f"{sentence}. It is being executed: stop every cleaner of the table and inspect it"
                )
            with translated(Step.PLAN):
                withdrawn = self._table.client.withdraw(clean.time)
            raise TemporaryError(f"{sentence}. The plan was {'withdrawn' if withdrawn else 'begun by another cleaner'}")

    def _unread(self, clean: str) -> str | None:
        """Return what a pending clean would take from a declared reader; None if nothing."""
        reader = needed_by(self._table.view().readers)
        if reader is None or reader.needs is None:
            return None
        retained = self._table.retained_by(clean)
        if retained is not None and retained <= reader.needs:
            return None
        return f"what reader {reader.name} at {reader.at} has not read: it needs everything since {reader.needs}"

    def _newest(self, clean: HudiPlan) -> Iterator[guard.NeededFiles]:
        with translated(Step.PLAN):
            files = self._table.client.newest_of(clean.files)
        yield guard.NeededFiles(by="the newest version of the table", files=files)

    def _roll_back_the_dead(self) -> None:
        """Undo the writes that have been silent for `dead_after`, the newest first, by name.

        Hudi's clean would take every write for failed that shows no heartbeat when it looks, judged by the cleaning
        client's interval. Among them may be a live write of a writer that is not LAZY, and a write that began after
        our last observation. So nothing is left for it to undo: the policy NEVER leaves failed writes alone. The
        builder of a multi-writer configuration insists on LAZY, so NEVER is set on the built one.
        """
        now = self._table.clock.now()
        for write in reversed(self._table.view().writers.in_flight):
            silence = silent_for(write, now)
            if silence is not None and silence >= self._table.options.dead_after:
                with translated(Step.COMMIT):
                    self._table.roll_back(write.time)
        with translated(Step.COMMIT):
            self._table.client.leave_failed_writes_alone()


Clean = program(CleanSteps, CleanOptions, settings=lambda options, _: settings(options))
"""The clean program. An abort withdraws the run's own plan, unless it was begun.

A plan that waits for its approval must not stay: archives go past it, and then compactions leave acknowledged
writes out (`planners/formats/hudi/history.py`). A writer's own clean would also execute it.
"""
