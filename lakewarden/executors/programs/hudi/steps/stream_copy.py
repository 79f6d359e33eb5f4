"""Joining files without decoding them (`layout: none`): Hudi's stream copy, and when it would be wrong.

The copy itself checks nothing (docs/hudi.md). Bloom filters of several kinds make it fail. An index of keys is not told
the new places of the keys, so the next upsert of each key fails. So each plan that copies is compared with Hudi's own
check of the files' footers, and with the table's indexes, before anything is written. Readers take a file for one of
the schema that was the newest at its instant, so a copy under an evolved schema loses columns, or cannot be read (run).
"""

from __future__ import annotations

from typing import Any

from lakewarden.executors.programs.hudi.client.write_client import HudiClient

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
