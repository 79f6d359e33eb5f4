"""Archive: manifests are rewritten by partition (`rewrite_manifests`), and the log of metadata files is bounded.

It deletes no data file. Writing the manifests is joined with the commit, because they are few and small. Only the small
manifests of one kind are taken, of data or of deletes. A MERGE of Spark replaces the delete files of the data files
that it touches, and with them their manifests. A rewrite of all manifests would conflict with almost every such commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.exchange import signed
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.steps.deleting import require_permission
from lakewarden.executors.programs.iceberg.steps.file_groups import each
from lakewarden.planners.formats.iceberg.backlog.backlog import bounds_versions, small_manifests
from lakewarden.planners.formats.iceberg.metadata.files import manifests_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import ArchiveOptions
from lakewarden.planners.model.errors import YieldError
from lakewarden.planners.model.instant import Step


class ArchiveSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: ArchiveOptions) -> None:
        self._table = table
        self._options = options
        self._small: Sequence[Manifest] = ()
        self._sets_versions = False

    def plan(self) -> Plan | NothingToDo:
        """Find what there is to do. It writes nothing."""
        metadata = self._table.metadata()
        small = self._small_manifests(metadata)
        versions = self._options.metadata_versions
        self._small = small if len(small) >= self._options.small_manifests else ()
        self._sets_versions = versions is not None and not bounds_versions(metadata.properties, versions)
        if self._sets_versions:  # each commit then deletes metadata files
            require_permission(metadata)
        if not self._small and not self._sets_versions:
            return NothingToDo(reason=f"{len(small)} of {self._options.small_manifests} small manifests")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: Iceberg writes and commits manifests in one call."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Set the properties, then rewrite the manifests. The commit that names the run is the last one."""
        figures = {"manifests_rewritten": 0, "manifests_added": 0}
        with translated(Step.COMMIT):
            if self._sets_versions:
                self._bound_versions()
            if self._small:
                rewritten = self._rewrite()
                figures["manifests_rewritten"] = _count(rewritten.rewrittenManifests())
                figures["manifests_added"] = _count(rewritten.addedManifests())
        return {**figures, "metadata_versions": self._options.metadata_versions or 0}

    def _small_manifests(self, metadata: TableMetadata) -> Sequence[Manifest]:
        if metadata.current_snapshot is None:
            return ()
        return small_manifests(manifests_of(metadata.current_snapshot, self._table.storage), metadata)

    def _bound_versions(self) -> None:
        update = self._table.java.updateProperties()
        update.set("write.metadata.delete-after-commit.enabled", "true")
        update.set("write.metadata.previous-versions-max", str(self._options.metadata_versions))
        update.commit()

    def _rewrite(self) -> Any:
        self._table.java.refresh()
        rewrite = self._table.actions.rewriteManifests(self._table.java).rewriteIf(self._is_small())
        return signed(rewrite, self._table.assignment).execute()

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
