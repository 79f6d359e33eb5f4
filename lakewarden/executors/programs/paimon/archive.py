"""Archive: small manifests of a table, and those that delete files, become fewer and larger ones.

The plan counts them. The commit lets Paimon write the merged manifests, and gives the snapshot that names them its
place. No data file is written or deleted, and no row changes. The manifests from before go with their snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.paimon.client.opened import OpenTable, program
from lakewarden.executors.programs.paimon.steps.publishing import CommitBase, base_now, committed, published
from lakewarden.executors.programs.paimon.steps.rewriting import propose_merge
from lakewarden.planners.formats.paimon.metadata.files import content_of
from lakewarden.planners.formats.paimon.metadata.manifests import ManifestMeta, read_manifest_list
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.options.service_options import ArchiveOptions
from lakewarden.planners.model.errors import PermanentError

_ATTEMPTS = 5
"""Each attempt writes the merged manifests anew. Those of an attempt that was too late are orphans."""


class ArchiveSteps:
    """The three steps."""

    def __init__(self, table: OpenTable, _options: ArchiveOptions) -> None:
        self._table = table
        self._schema: Schema | None = None

    def plan(self) -> Plan | NothingToDo:
        """Count the manifests that a merge would change. Raises PermanentError if the service is blocked."""
        look = self._table.free_look(PermanentError)
        self._schema = look.facts.schema
        if look.facts.mergeable < 2:
            return NothingToDo(reason=f"of {look.facts.manifests} manifests none can be merged")
        return Plan(instant=None, files_to_delete=0)

    def execute(self, plan: Plan) -> None:
        """Do nothing: manifests are merged against the newest snapshot."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Publish a snapshot with the same files in fewer manifests, after a last look.

        Raises YieldError if writers were faster, and UnknownError if the table does not show the commit.
        """
        before = dict[int, int]()

        def base() -> CommitBase:
            commit_base = base_now(self._table, self._schema)
            before[commit_base.newest.id] = len(self._manifests(commit_base.newest))
            return commit_base

        proposal = published(self._table, base, lambda _: propose_merge(self._table), attempts=_ATTEMPTS)
        snapshot = committed(self._table, proposal)
        after = self._manifests(snapshot)
        return {"snapshot": snapshot.id, "manifests_before": before[snapshot.id - 1], "manifests_after": len(after)}

    def _manifests(self, snapshot: Snapshot) -> tuple[ManifestMeta, ...]:
        storage, folder = self._table.storage, f"{self._table.table.location}/manifest"
        lists = {snapshot.base: snapshot.base_size, snapshot.delta: snapshot.delta_size}
        manifests = tuple[ManifestMeta, ...]()
        for name, size in lists.items():
            file = f"{folder}/{name}"
            manifests += read_manifest_list(content_of(file, storage), file=file, size=size)
        return manifests


Archive = program(ArchiveSteps, ArchiveOptions)
"""The archive program. What an abort leaves has no name in any snapshot, and orphans deletes it."""
