"""Clean: snapshots expire from the oldest on, each with the files that only it has. Execution and commit are one step.

Paimon's own expiry looks at no branch, keeps the files of the tag before a snapshot alone, and deletes all data files
before the first snapshot. So Lakewarden deletes by its own reading of the manifests, one snapshot at a time: first its
data files, then its lists and manifests, and the file of the snapshot last. A kill leaves one snapshot half deleted,
and the next run goes on with it. Nothing has to be written down.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.paimon.client.opened import OpenTable, on_the_way_out, program
from lakewarden.executors.programs.paimon.steps.disk import Listed, table_files
from lakewarden.executors.programs.paimon.steps.rewriting import SNAPSHOTS
from lakewarden.planners.formats.paimon.deletion.names import FileNames
from lakewarden.planners.formats.paimon.deletion.retention import Expiring, Retention, expiring, needed_by, rule_of
from lakewarden.planners.formats.paimon.deletion.roots import read_consumers, read_roots, stamp_of_roots
from lakewarden.planners.formats.paimon.metadata.heads import HINT, hinted
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions
from lakewarden.planners.formats.paimon.options.table_options import own_options
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.storage.content import bytes_of

_MOST_SNAPSHOTS = 1_000_000
_LEAST_REST = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What expires, what the first snapshot that stays and the newest one are, and how the tags and branches looked
    when the files were compared with theirs.
    """

    expiring: Sequence[Expiring]
    first_kept: Snapshot
    newest: Snapshot
    retention: Retention
    roots: str
    there: Listed


class CleanSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: CleanOptions) -> None:
        self._table = table
        self._options = options
        self._location = table.table.location
        self._files = table_files(table)
        self._names = FileNames(location=self._location, storage=table.storage)
        self._end = 0
        self._reach = functools.partial(points.reach, run=table.assignment.run, service=table.assignment.service)

    def plan(self) -> Plan | NothingToDo:
        """Choose the snapshots, and count their files. Nothing is written down."""
        look = self._looked(PermanentError)
        retention = self._retention(look)
        self._end = min(retention.first_kept, look.facts.history.oldest + self._options.max_snapshots)
        chosen = self._chosen(look)
        if chosen is None:
            why = "" if retention.held_by is None else f": {retention.held_by} holds them"
            rest = None if retention.next_at is None else max(_LEAST_REST, retention.next_at - self._table.clock.now())
            return NothingToDo(reason=f"no snapshot may expire{why}", again=rest)
        return Plan(
            instant=None,
            files_to_delete=len(chosen.there.found),
            bytes_to_delete=bytes_of(chosen.there.found.values(), self._table.storage),
            versions_to_delete=len(chosen.expiring),
            files_in_table=chosen.there.files,
        )

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Choose again by what the table shows now, and delete. Raises YieldError if more would be deleted than was
        planned, or if a tag, a branch, a consumer or a rollback comes in between.
        """
        chosen = self._chosen(self._looked(YieldError))
        if chosen is None:
            raise YieldError("no snapshot may expire any more")
        if len(chosen.there.found) > (plan.files_to_delete or 0):
            raise YieldError(f"{len(chosen.there.found)} files would be deleted now, more than the plan has counted")
        self._reach(Point.EXPIRING)
        self._drop_a_misleading_hint(chosen)
        files = 0
        done = list[Expiring]()
        try:
            for expiry in chosen.expiring:
                self._require_as_it_was(expiry, chosen)
                files += self._expire(expiry, chosen)
                done.append(expiry)
        except LakewardenError:
            if not done:
                raise
        finally:
            if done:
                self._hint(done[-1].snapshot.id + 1)
        left = chosen.retention.first_kept - done[-1].snapshot.id - 1
        return {"snapshots_expired": len(done), "files_deleted": files, **({GOES_ON: 1} if left > 0 else {})}

    def _looked(self, kind: type[PermanentError | YieldError]) -> Look:
        """Return the table with all of its snapshots. Raises `kind` if the table is of one that is not cleaned."""
        self._files.require_own_folders()
        look = self._table.free_look(kind, most=_MOST_SNAPSHOTS)
        if not look.facts.history.is_whole:
            raise TemporaryError(f"not all snapshots of {self._location} could be read")
        return look

    def _chosen(self, look: Look) -> Chosen | None:
        """Return what may expire now of the snapshots of the plan; None if nothing may."""
        retention = self._retention(look)
        snapshots = look.facts.history.snapshots
        gone = [snapshot for snapshot in snapshots if snapshot.id < min(retention.first_kept, self._end)]
        if not gone:
            return None
        kept = snapshots[len(gone) :]
        roots = read_roots(self._location, self._table.storage)
        needed = needed_by(kept, roots.snapshots, self._names)
        going = expiring(gone, kept, needed, self._names)
        there = self._files.in_buckets(frozenset[str]().union(*(expiry.data for expiry in going)))
        return Chosen(
            expiring=going,
            first_kept=kept[0],
            newest=kept[-1],
            retention=retention,
            roots=roots.stamp,
            there=there,
        )

    def _retention(self, look: Look) -> Retention:
        """Return what may expire, by all consumers: an observation reads a bounded number of them."""
        facts = look.facts
        rule = rule_of(facts.schema.options, self._options, own_options(self._table.table))
        references = replace(facts.references, consumers=read_consumers(self._location, self._table.storage))
        return replace(facts, references=references).retention(rule)

    def _require_as_it_was(self, expiry: Expiring, chosen: Chosen) -> None:
        """Raise YieldError if something may need the snapshot by now: the last look before its deletion."""
        points.require_wanted(self._table.assignment.run)
        self._table.require_jvm()
        storage = self._table.storage
        if stamp_of_roots(self._location, storage) != chosen.roots:
            raise YieldError("a tag or a branch was made or changed since the plan: it is planned again")
        for kept in (chosen.first_kept, chosen.newest):
            if self._table.snapshot(kept.id) != kept:
                raise YieldError(f"snapshot {kept.id} is gone or another one since the plan: the table was rolled back")
        behind = [
            consumer.name for consumer in read_consumers(self._location, storage) if consumer.next <= expiry.snapshot.id
        ]
        if behind:
            raise YieldError(f"the consumer {behind[0][:80]} needs snapshot {expiry.snapshot.id} by now")

    def _expire(self, expiry: Expiring, chosen: Chosen) -> int:
        """Delete a snapshot with its files, and return how many data files were deleted."""
        paths = chosen.there.found
        files = self._files.delete([paths[name] for name in sorted(expiry.data) if name in paths])
        self._reach(Point.DELETING)
        for path in expiry.metadata:
            self._files.delete([f"{self._location}/{path}"])
        self._reach(Point.EXPIRED)
        self._files.delete([f"{self._location}/snapshot/snapshot-{expiry.snapshot.id}"])
        return files

    def _drop_a_misleading_hint(self, chosen: Chosen) -> None:
        """Delete Paimon's hint of the newest snapshot if it would mislead after the clean: Paimon believes it if there
        is no snapshot of the next number. Without a hint it lists the folder. A hint that is written here would
        mislead after a rollback in between (run: no client could read the table).
        """
        folder = f"{self._location}/{SNAPSHOTS}"
        hint = hinted(folder, self._table.storage)
        if hint is not None and not chosen.first_kept.id <= hint <= chosen.newest.id:
            self._files.delete([f"{folder}/{HINT}"])

    def _hint(self, oldest: int) -> None:
        """Write Paimon's hint of the oldest snapshot. It may be missing or stale."""
        with on_the_way_out("write the hint of the oldest snapshot"):
            self._files.hint_of_oldest(oldest)


Clean = program(CleanSteps, CleanOptions, deletes="files")
"""The program. An abort leaves everything as it is."""
