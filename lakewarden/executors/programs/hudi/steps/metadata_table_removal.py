"""Removing a metadata table so that its remains do no harm at any moment.

A client makes a metadata table in the existing folder, and continues the timeline that it finds there. A compaction
that seems to be pending there is executed at each write, and fails for the files that it names (run). So nothing is
left pending when the metadata table leaves the table's properties. Its timeline is deleted in an order in which no
instant ever seems pending: the completed file of each instant last.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import structlog

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.indexes.metadata_table import (
    archive_deletion_order,
    deletion_order,
    metadata_instants,
)
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout
from lakewarden.planners.formats.hudi.metadata.properties import HOME, TableProperties, read_table_properties
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import State
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import listed

_REWRITES = (Action.COMPACTION, Action.LOGCOMPACTION)


class Remains:
    """The metadata table's folder. All methods are to be called under the table's lock, with nothing in flight."""

    def __init__(self, client: HudiClient, storage: Storage) -> None:
        self._client = client
        self._storage = storage
        self._folder = f"{client.location}/{HOME}/metadata"
        self._timeline = f"{self._folder}/{HOME}/timeline"

    def undo_rewrites(self, properties: TableProperties) -> None:
        """Undo its own pending compactions: first the files that they have written, and last their plans."""
        for instant in metadata_instants(self._timeline, properties, self._storage) or ():
            if instant.action in _REWRITES and instant.state is not State.COMPLETED:
                for partition in listed(self._folder, self._storage):
                    if partition.is_folder and not partition.name.startswith("."):
                        self._delete_written(f"{self._folder}/{partition.name}", by=instant.time)
                for file in (instant.inflight, instant.requested):
                    if file is not None:
                        self._delete(self._timeline, file.name)

    def delete(self) -> None:
        """Delete it. It has left the table's properties before."""
        for name in deletion_order(listed(self._timeline, self._storage), Layout.V2):
            self._delete(self._timeline, name)
        for name in archive_deletion_order(listed(f"{self._timeline}/history", self._storage)):
            self._delete(f"{self._timeline}/history", name)
        self._client.storage.deleteDirectory(self._client.path(self._folder))

    def _delete_written(self, folder: str, *, by: str) -> None:
        for file in listed(folder, self._storage):
            if f"_{by}." in file.name:
                self._delete(folder, file.name)

    def _delete(self, folder: str, name: str) -> None:
        self._client.storage.deleteFile(self._client.path(f"{folder}/{name}"))


# Manifests of the archived timeline that were not written to their end. With one of them, Hudi fails each archive.
#
# Hudi writes `manifest_<n>.<uuid>` and renames it to `manifest_<n>`. A process that is killed between leaves the first
# name. At the end of each archive Hudi reads a number from every name that begins with `manifest_`. Then a
# NumberFormatException ends the run, after its work was done (`LSMTimeline.allSnapshotVersions` of 1.2.0).

log = structlog.get_logger(__name__)

_HALF = re.compile(r"manifest_\d+\.[0-9a-f-]{36}", re.ASCII)
_READ_BY_HUDI = re.compile(r"manifest_\d{1,9}(?:_.*)?", re.ASCII)


def refuse_unknown_manifests(table: OpenTable) -> None:
    """Raise PermanentError if Hudi's archive would fail by a name that Hudi has not written."""
    for folder, name in _unreadable(table):
        if _HALF.fullmatch(name) is None:
            raise PermanentError(
                f"{folder}/{name} is not a manifest of the archived timeline, and Hudi's archive fails by its "
                "name: move "
                "it out of this folder"
            )


def remove_half_manifests(table: OpenTable) -> None:
    """Remove manifests that were not written to their end. Call it under the table's lock, without another archive."""
    storage = table.client.storage
    for folder, name in _unreadable(table):
        if _HALF.fullmatch(name) is not None:
            storage.deleteFile(table.client.path(f"{folder}/{name}"))
            log.warning("half_manifest_removed", location=table.assignment.location, file=f"{folder}/{name}")


def _unreadable(table: OpenTable) -> Iterator[tuple[str, str]]:
    """Yield each folder and name in it that Hudi takes for a manifest and cannot read. Both the archive of the table
    and that of its metadata table are looked at.
    """
    properties = [table.properties()]
    if properties[0].has_metadata_table:
        with contextlib.suppress(PermanentError):  # it is not made yet
            properties.append(read_table_properties(f"{table.assignment.location}/{HOME}/metadata", table.storage))
    for table_properties in properties:
        if table_properties.layout is Layout.V1 or not table_properties.history:
            continue
        folder = f"{table_properties.timeline_folder}/{table_properties.history}"
        for entry in listed(folder, table.storage):
            if entry.name.startswith("manifest_") and _READ_BY_HUDI.fullmatch(entry.name) is None:
                yield folder, entry.name


# Joining files without decoding them (`layout: none`): Hudi's stream copy, and when it would be wrong.
#
# The copy itself checks nothing (docs/hudi.md). Bloom filters of several kinds make it fail. An index of keys is not
# told the new places of the keys, so the next upsert of each key fails. So each plan that copies is compared with
# Hudi's own check of the files' footers, and with the table's indexes, before anything is written. Readers take a file
# for one of the schema that was the newest at its instant, so a copy under an evolved schema loses columns, or cannot
# be read (run).

_PLAN = "hoodie.clustering.plan.strategy.class"
_EXECUTION = "hoodie.clustering.execution.strategy.class"
_CLUSTERING = "org.apache.hudi.client.clustering"
_COPIES = f"{_CLUSTERING}.run.strategy.SparkStreamCopyClusteringExecutionStrategy"
_COPYING = (_COPIES, f"{_CLUSTERING}.run.strategy.SparkBinaryCopyClusteringExecutionStrategy")
_OF_FILES = frozenset({"files", "column_stats", "partition_stats"})
"""Partitions of a metadata table that say nothing of keys."""


def copy_files(client: HudiClient) -> None:
    """Let the clusterings that are planned from here on join files of one schema as they are."""
    client.java.getConfig().setValue(_PLAN, f"{_CLUSTERING}.plan.strategy.SparkStreamCopyClusteringPlanStrategy")
    client.java.getConfig().setValue(_EXECUTION, _COPIES)


def decode_files(client: HudiClient) -> None:
    """Let the clusterings that are planned from here on read and write the rows."""
    client.java.getConfig().setValue(_PLAN, f"{_CLUSTERING}.plan.strategy.SparkSizeBasedClusteringPlanStrategy")
    client.java.getConfig().setValue(_EXECUTION, f"{_CLUSTERING}.run.strategy.SparkSortAndSizeExecutionStrategy")


def why_not_copied(client: HudiClient, instant: str, *, footers: bool = True) -> str | None:
    """Return why a pending clustering must not be executed as planned; None if it may be, or copies nothing.

    The table's indexes are checked, and by default the files' footers. Raises Py4JJavaError.
    """
    plan = client.clustering_plan(instant)
    if plan is None or str(plan.getStrategy().getStrategyClassName()) not in _COPYING:
        return None
    table = client.table()
    beyond = {str(name) for name in table.getMetaClient().getTableConfig().getMetadataPartitions()} - _OF_FILES
    if beyond:
        return f"plan {instant} copies files, and the table has the index {min(beyond)}, which would not be told"
    if client.evolved_schema() is not None:
        return f"plan {instant} copies files, and readers would find columns under their former names or types there"
    if footers and not _fit(client, table, plan):
        return f"plan {instant} copies files with bloom filters or schemas that do not fit together"
    return None


def _fit(client: HudiClient, table: Any, plan: Any) -> bool:
    hudi = client.hudi
    info = hudi.common.model.ClusteringGroupInfo
    groups = client.java_list(info.create(group) for group in plan.getInputGroups())
    strategy = hudi.client.clustering.run.strategy.SparkBinaryCopyClusteringExecutionStrategy
    checking = strategy(table, client.java.getEngineContext(), client.java.getConfig())
    return bool(checking.supportBinaryStreamCopy(groups, plan.getStrategy().getStrategyParams()))
