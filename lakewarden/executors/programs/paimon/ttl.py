"""TTL: partitions that have expired are dropped, by one snapshot that names their files no more.

No file is deleted. The files go with the snapshots that still have them: `clean` deletes them then, and until then an
operator can roll the table back. The plan is a list of partitions with the sums of their files, in the memory of the
worker. Execution and commit are one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog

from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.programs.paimon.client.opened import OpenTable, program
from lakewarden.executors.programs.paimon.steps.publishing import CommitBase, base_of, committed, published
from lakewarden.executors.programs.paimon.steps.rewriting import Proposal, propose_drop
from lakewarden.planners.formats.paimon.metadata.files import content_of
from lakewarden.planners.formats.paimon.metadata.manifests import Key, Tally, digest_of, read_manifest_list
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.formats.paimon.options.service_options import TtlOptions
from lakewarden.planners.formats.paimon.partitions.expiry import Expired, called, expired
from lakewarden.planners.formats.paimon.partitions.names import PaimonPartition, partitions_of
from lakewarden.planners.formats.paimon.partitions.serving import term_of_table
from lakewarden.planners.model.errors import NotYetError, PermanentError, YieldError

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(minutes=1)
_REST = timedelta(hours=1)


class TtlSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: TtlOptions) -> None:
        self._table = table
        self._options = options
        self._schema: Schema | None = None
        self._planned: Mapping[bytes, PaimonPartition] = {}
        self._going: Sequence[PaimonPartition] = ()
        self._more = False

    def plan(self) -> Plan | NothingToDo:
        """Choose the partitions, and count their files. Nothing is written down."""
        look = self._table.free_look(PermanentError, partitions=True)
        self._schema = look.facts.schema
        judged = self._judged(look)
        gone = [partition for _, partition in judged.gone]
        if not gone:
            why = f": {called(judged.kept[0][0])} is kept, {judged.kept[0][1]}" if judged.kept else ""
            rest = None if judged.next_at is None else max(_LEAST_REST, judged.next_at - self._table.clock.now())
            return NothingToDo(reason=f"no partition has expired{why}", again=rest)
        chosen = gone[: self._options.max_partitions]
        self._planned, self._more = {partition.row: partition for partition in chosen}, len(gone) > len(chosen)
        return Plan(
            instant=None,
            partitions_to_delete=len(chosen),
            files_to_delete=sum(partition.files for partition in chosen),
            files_in_table=look.facts.holdings.files,
            bytes_to_delete=sum(partition.bytes for partition in chosen),
        )

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Drop those partitions of the plan that are still as they were counted. What changed since is left out."""
        proposal = published(self._table, self._base, self._made)
        snapshot = committed(self._table, proposal)
        return {
            "snapshot": snapshot.id,
            "partitions_deleted": len(self._going),
            "files_deleted": sum(partition.files for partition in self._going),
            "rows_deleted": sum(partition.rows for partition in self._going),
            **({GOES_ON: 1} if self._more else {}),
        }

    def _judged(self, look: Look) -> Expired:
        facts = look.facts
        try:
            term = term_of_table(self._table.table, facts)
        except ValueError as wrong:
            raise PermanentError(f"the options of the table about its partitions are not read here: {wrong}") from wrong
        if term is None:
            raise PermanentError("neither services.ttl.options.retain nor partition.expiration-time is set")
        if facts.changes is None:
            return Expired(gone=(), kept=(), next_at=None)
        return expired(partitions_of(look.totals, facts.schema), facts.changes, term, facts.now)

    def _base(self) -> CommitBase:
        """Return what the commit follows, by a look at the whole table, and keep what goes.

        Raises YieldError if the schema was changed or a blocker appeared, and NotYetError if nothing may go any more.
        """
        look = self._table.free_look(YieldError, partitions=True)
        base = base_of(look, self._schema)
        now = {partition.row: partition for _, partition in self._judged(look).gone}
        self._going = [partition for row, partition in self._planned.items() if now.get(row) == partition]
        for row, partition in self._planned.items():
            if now.get(row) != partition:
                log.warning(
                    "partition_not_deleted",
                    table=self._table.table.id,
                    partition=called(partition),
                    reason="it has changed since the plan",
                )
        if not self._going:
            raise NotYetError("each partition of the plan has changed since it was made", delay=_REST)
        return base

    def _made(self, base: Snapshot) -> Proposal:
        """Return the snapshot without the partitions. Raises PermanentError if it does anything else."""
        names = [partition.name.values for partition in self._going if partition.name is not None]
        proposal = propose_drop(self._table, names)
        if proposal.snapshot.id == base.id + 1:  # else it is made anew
            self._require_drops_only(proposal.snapshot)
        return proposal

    def _require_drops_only(self, snapshot: Snapshot) -> None:
        """Raise PermanentError unless the snapshot deletes exactly the files of the partitions, and adds none."""
        folder, storage = f"{self._table.table.location}/manifest", self._table.storage
        file, sums = f"{folder}/{snapshot.delta}", dict[Key, Tally]()
        added = 0
        for meta in read_manifest_list(content_of(file, storage), file=file, size=snapshot.delta_size):
            manifest = f"{folder}/{meta.name}"
            digest = digest_of(content_of(manifest, storage), meta, file=manifest, small=0)
            added += meta.added
            for key, tally in digest.tallies.items():
                before = sums.get(key, Tally(0, 0, 0, 0))
                sums[key] = Tally(*(was - is_ for was, is_ in zip(before, tally, strict=True)))
        wanted = {key: tally._replace(small=0) for partition in self._going for key, tally in partition.held.items()}
        if added or sums != wanted:
            raise PermanentError(
                "Paimon's snapshot would delete other files than those of the expired partitions: nothing is committed"
            )


Ttl = program(TtlSteps, TtlOptions)
"""The program. An abort leaves everything as it is."""
