"""TTL: partitions that are old enough are deleted. Execution and commit are one step.

The deletion is a `replacecommit`: readers do not see the rows any more, and a later clean deletes the files. Hudi's
`managePartitionTTL` would choose the partitions again, by rules of its own (docs/hudi.md). So they are deleted by name:
exactly those that were planned, approved, and checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, ProgramSteps, program
from lakewarden.planners.formats.hudi.deletion import guard
from lakewarden.planners.formats.hudi.deletion.expiry import (
    Partition,
    Term,
    confirm_expired,
    read_deletions,
    read_partitions,
)
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY
from lakewarden.planners.formats.hudi.options.service_options import SilentWrites, TtlOptions, TtlStrategy
from lakewarden.planners.formats.hudi.writers.activity import does_not_say, meeting
from lakewarden.planners.formats.hudi.writers.non_blocking import GIVEN_AGAIN
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.settings import shown


class TtlSteps(ProgramSteps[TtlOptions]):
    """The steps."""

    def __init__(self, table: OpenTable, options: TtlOptions) -> None:
        super().__init__(table, options)
        self._term = Term.of(options, zone=table.client.zone)
        self._planned: Sequence[str] = ()
        self._held: Mapping[str, str] = {}

    def plan(self) -> Plan | NothingToDo:
        """Find the expired partitions, and delete nothing."""
        expired = self._expired(self._candidates())[: self._options.max_delete_partitions]
        if not expired:
            return NothingToDo(reason=self._why_none())
        self._planned = [partition.path for partition in expired]
        files = sum(partition.files for partition in expired)
        return Plan(
            instant=None,
            partitions_to_delete=len(expired),
            files_to_delete=files,
            bytes_to_delete=sum(partition.bytes for partition in expired),
            files_in_table=self._table.files_if_asked(files),
        )

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete the planned partitions that are still expired, all of them between two checks of the writers: while
        the table's lock is held, no writer begins or commits. Raises YieldError if a write in flight touches one of the
        partitions, or does not say what it touches.
        """
        self._table.view(commits=True)  # under the lock only what is new has to be read
        began = self._table.clock.now()
        expired = [partition.path for partition in self._expired(self._planned)]
        if not expired:
            return {"partitions_deleted": 0}
        instant = None
        try:
            with self._table.alone():
                self._stay_out_of_the_way(expired, since=began)
                self._table.before_a_commit()
                with translated(Step.COMMIT):
                    instant = str(self._table.client.java.startDeletePartitionCommit())
                self._table.reach(Point.LOOKING)
                with translated(Step.COMMIT):
                    signed = {RUN_KEY: self._table.assignment.run}
                    self._table.client.delete_partitions(expired, instant, extra_metadata=signed)
        except LakewardenError:
            if instant is not None:
                with on_the_way_out("undo the deletion"):
                    self._table.roll_back(instant)
            raise
        return {"partitions_deleted": len(expired)}

    def _candidates(self) -> Iterable[str]:
        if self._options.partition_selected:
            return [path.strip("/") for path in self._options.partition_selected]
        with translated(Step.PLAN):
            return [path for path in self._table.client.partitions() if path]

    def _expired(self, paths: Iterable[str]) -> list[Partition]:
        """Return the partitions that are expired, still show files, and are not needed. Raises PermanentError if
        writers would come back to one and find its file groups' names taken.

        Partitions that may have expired by their paths are listed many at a time. A listing that leaves out the newest
        files makes a partition look old. So every partition that looks expired is listed once more.
        """
        location, storage, now = self._table.assignment.location, self._table.storage, self._table.clock.now()
        old = [path for path in paths if self._term.may_have_expired(path, now=now)]
        self._table.view()  # it also knows what the run's earlier observations have shown
        partitions = read_partitions(location, old, storage)
        before = self._deleted_before()
        expired = [
            path
            for path, partition in sorted(partitions.items())
            if self._term.has_expired(partition, now=now, deleted_before=path in before)
        ]
        for path, again in read_partitions(location, expired, storage).items():
            confirm_expired(partitions[path], again)
        held = self._held = guard.partitions_in_need(
            location, storage, expired, earlier_timeline=self._table.observations.seen
        )
        with translated(Step.PLAN):
            there = self._table.client.shows_files_of([path for path in expired if path not in held])
        for path in there:
            if partitions[path].shares_names:
                raise PermanentError(f"partition {path} has buckets of writers that do not block: {GIVEN_AGAIN}")
        return [partitions[path] for path in there]

    def _deleted_before(self) -> frozenset[str]:
        """Return the partitions that deletions on the timeline name, for the strategy that depends on it: their old
        files may still be there.
        """
        if self._options.strategy is not TtlStrategy.KEEP_BY_CREATION_TIME:
            return frozenset()
        properties = self._table.properties()
        deletions = read_deletions(self._table.whole_timeline(properties), properties, self._table.storage)
        return frozenset[str]().union(*deletions.values())

    def _why_none(self) -> str:
        """Return why no partition is deleted: some may stay because they are needed."""
        old = f"older than {self._options.days_retain} days"
        if not self._held:
            return f"no partition that shows rows is {old}"
        path, reason = min(self._held.items())
        return f"{len(self._held)} of the partitions {old} are needed, {shown(path)} for one: {reason}"

    def _stay_out_of_the_way(self, partitions: Sequence[str], *, since: datetime) -> None:
        """Raise YieldError if a write has touched one of the partitions `since` then, is about to, or may be. To be
        called under the lock.
        """
        view = self._table.view(commits=True)
        touches = view.writers.touches
        if touches is None:
            raise TemporaryError("the timeline does not show which partitions were written to")
        for path in partitions:
            if path in touches and touches[path].at >= since:
                raise YieldError(f"write {touches[path].instant} has just touched partition {path}")
        met = meeting(view.writers, partitions, view.observed_at)
        for write in met:
            if write.time in view.writers.touching:
                raise YieldError(f"write {write.time} in flight touches a partition that would be deleted")
            if self._options.silent_writes_touch is SilentWrites.ANYTHING:
                raise YieldError(does_not_say(write))


Ttl = program(TtlSteps, TtlOptions)
"""The TTL program. An abort leaves everything as it is."""
