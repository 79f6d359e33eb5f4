"""Compaction: the sorted runs of buckets become fewer, and small files of append tables become larger ones.

The plan is a list of buckets in the memory of the worker. The files are written in `execute`, where no snapshot names
them. The commit is one new file in the table's folder of snapshots. It appears only if no other snapshot has its
number, and only after a last look at the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.paimon.client.opened import OpenTable, on_the_way_out, program
from lakewarden.executors.programs.paimon.steps.publishing import base_now, committed, published
from lakewarden.executors.programs.paimon.steps.rewriting import Proposal, Rewriting, discard, propose
from lakewarden.planners.formats.paimon.backlog.compactions import Bucket, chosen, is_full
from lakewarden.planners.formats.paimon.metadata.files import content_of
from lakewarden.planners.formats.paimon.metadata.manifests import read_manifest_list
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import CompactionOptions
from lakewarden.planners.model.errors import NotYetError, PermanentError, UnknownError

log = structlog.get_logger(__name__)

_REST = timedelta(minutes=10)


class CompactionSteps:
    """The three steps, and the abort."""

    def __init__(self, table: OpenTable, options: CompactionOptions) -> None:
        self._table = table
        self._options = options
        self._buckets: Sequence[Bucket] = ()
        self._schema: Schema | None = None
        self._messages: list[Any] = []

    def plan(self) -> Plan | NothingToDo:
        """Choose the buckets. Raises PermanentError if the table is of a kind that is not compacted."""
        look = self._table.free_look(PermanentError)
        self._schema = schema = look.facts.schema
        most = min(self._options.max_bytes, self._table.assignment.largest_plan or self._options.max_bytes)
        turn = self._table.assignment.run
        self._buckets = chosen(look.totals, schema, self._options, most_bytes=most, turn=turn)
        if not self._buckets:
            return NothingToDo(reason=f"no bucket is worth a compaction ({self._options.strategy})")
        return Plan(instant=None, file_groups=len(self._buckets), bytes=sum(bucket.bytes for bucket in self._buckets))

    def execute(self, plan: Plan) -> None:
        """Write the new files, without committing them. Raises NotYetError if Paimon finds nothing to merge."""
        if self._schema is None:
            raise PermanentError("there is no plan")
        full = is_full(self._schema, self._options)
        rewriting = Rewriting(self._table, self._buckets, self._schema.options.bucket_mode, full=full)
        try:
            rewriting.carry_out(at_a_time=self._options.max_concurrent_buckets)
        finally:
            self._messages = rewriting.messages
        if rewriting.failures:
            raise rewriting.failures[0]
        if not self._messages:
            raise NotYetError(f"Paimon found nothing to merge in {len(self._buckets)} buckets", delay=_REST)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Publish a snapshot with the new files, after a last look. The figures are read from the table afterwards."""
        messages, self._messages = self._messages, []
        try:
            proposal = published(
                self._table, lambda: base_now(self._table, self._schema), lambda _: propose(self._table, messages)
            )
        except UnknownError:
            raise
        except Exception:
            self._messages = messages  # certainly not committed
            raise
        return self._figures(proposal)

    def abort(self) -> None:
        """Delete the new files that the run has not tried to commit."""
        messages, self._messages = self._messages, []
        with on_the_way_out("delete what was written"):
            discard(self._table, messages)

    def _figures(self, proposal: Proposal) -> Mapping[str, int | float | str]:
        """Return what the table says of the commit. Raises UnknownError if it does not show it."""
        snapshot = committed(self._table, proposal)
        file = f"{self._table.table.location}/manifest/{snapshot.delta}"
        manifests = read_manifest_list(content_of(file, self._table.storage), file=file, size=snapshot.delta_size)
        return {
            "snapshot": snapshot.id,
            "buckets": len(self._buckets),
            "files_rewritten": sum(manifest.deleted for manifest in manifests),
            "files_added": sum(manifest.added for manifest in manifests),
            "bytes_rewritten": sum(bucket.bytes for bucket in self._buckets),
        }


Compaction = program(CompactionSteps, CompactionOptions)
"""The compaction program. An abort deletes the files that the run has not tried to commit."""
