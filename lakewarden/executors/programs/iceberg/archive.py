"""Archive: manifests are rewritten by partition (`rewrite_manifests`).

It deletes no data file. Writing the manifests is joined with the commit, because they are few and small. Only the small
manifests of one kind are taken, of data or of deletes. A MERGE of Spark replaces the delete files of the data files
that it touches, and with them their manifests. A rewrite of all manifests would conflict with almost every such commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.iceberg.client.commit import signed
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.steps.file_groups import each
from lakewarden.planners.formats.iceberg.backlog.backlog import small_manifests
from lakewarden.planners.formats.iceberg.metadata.files import manifests_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.options.service_options import ArchiveOptions
from lakewarden.planners.model.errors import YieldError
from lakewarden.planners.model.instant import Step


class ArchiveSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: ArchiveOptions) -> None:
        self._table = table
        self._options = options
        self._small: Sequence[Manifest] = ()

    def plan(self) -> Plan | NothingToDo:
        """Find what there is to do. It writes nothing."""
        metadata = self._table.metadata()
        newest = metadata.current_snapshot
        manifests = () if newest is None else manifests_of(newest, self._table.storage)
        self._small = small_manifests(manifests, metadata)
        if len(self._small) < self._options.small_manifests:
            return NothingToDo(reason=f"{len(self._small)} of {self._options.small_manifests} small manifests")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: Iceberg writes and commits manifests in one call."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Rewrite the manifests."""
        with translated(Step.COMMIT):
            self._table.java.refresh()
            rewrite = self._table.actions.rewriteManifests(self._table.java).rewriteIf(self._is_small())
            rewritten = signed(rewrite, self._table.assignment).execute()
            return {
                "manifests_rewritten": _count(rewritten.rewrittenManifests()),
                "manifests_added": _count(rewritten.addedManifests()),
            }

    def _is_small(self) -> Any:
        """Return Java's predicate over manifests. Two manifests are equal if their paths are equal
        (`GenericManifestFile`).
        """
        wanted = {manifest.path for manifest in self._small}
        manifests = each(self._table.java.currentSnapshot().allManifests(self._table.java.io()))
        equal = self._table.jvm.java.util.function.Predicate.isEqual
        predicates = [equal(manifest) for manifest in manifests if manifest.path() in wanted]
        if not predicates:
            raise YieldError("others have replaced all the small manifests since the rewrite was planned")
        return _any(predicates)


def _any(predicates: list[Any]) -> Any:
    """Return a predicate that is true if one of Java's predicates is. They are joined in halves, so that the calls nest
    only as deep as the logarithm of their number.
    """
    if len(predicates) == 1:
        return predicates[0]
    half = len(predicates) // 2
    return getattr(_any(predicates[:half]), "or")(_any(predicates[half:]))


def _count(java_iterable: Any) -> int:
    return sum(1 for _ in each(java_iterable))


Archive = program(ArchiveSteps, ArchiveOptions)
"""The archive program. An abort leaves it as it is."""
