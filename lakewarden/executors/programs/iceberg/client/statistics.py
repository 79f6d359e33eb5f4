"""Iceberg's own statistics: sketches of distinct values, as `ComputeTableStatsSparkAction` makes and writes them, and
counts by partition. The class for sketches is not public, so it is called by reflection. The version of the bundle is
pinned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from py4j.protocol import Py4JJavaError

from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.java_errors import each
from lakewarden.planners.formats.iceberg.metadata.timeline import RUN_ID
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Step

log = structlog.get_logger(__name__)

_FORMAT = "write.format.default"
_SKETCHES = "org.apache.iceberg.spark.actions.NDVSketchUtil"


def columns_of(table: OpenTable, wanted: Sequence[str], snapshot: Any) -> Sequence[str]:
    """Return the columns to count: those that are `wanted`, else all without a nested type. They have the names that
    they had at the snapshot, because Iceberg reads it by its own schema. A younger column is left out.

    Raises PermanentError if the table does not have such a column.
    """
    with translated(Step.PLAN):
        schema, then = table.java.schema(), table.java.schemas().get(snapshot.schemaId()) or table.java.schema()
        has = {name: schema.findField(name) for name in wanted or [str(column.name()) for column in schema.columns()]}
        plain = [name for name, column in has.items() if column is not None and column.type().isPrimitiveType()]
        if wanted and len(plain) < len(has):
            wrong = next(name for name in wanted if name not in plain)
            raise PermanentError(f"table_stats asks for {wrong}, which is not a column of the table, or a nested one")
        names = [then.findColumnName(has[name].fieldId()) for name in plain]
    return [str(name) for name in names if name is not None]


def sketches(table: OpenTable, session: Any, snapshot: Any, columns: Sequence[str]) -> Any:
    """Return a `java.util.List` of Puffin blobs for a snapshot, one for each column."""
    java = table.jvm.java.lang
    try:
        util = java.Thread.currentThread().getContextClassLoader().loadClass(_SKETCHES)
        (generate,) = [
            getDeclaredMethod
            for getDeclaredMethod in util.getDeclaredMethods()
            if getDeclaredMethod.getName() == "generateBlobs"
        ]
        generate.setAccessible(True)
    except (Py4JJavaError, ValueError) as error:
        raise PermanentError(
            f"the Iceberg bundle on the class path has no {_SKETCHES} as 1.11 has it: let the profile use Lakewarden's "
            "own bundle"
        ) from error
    table.jvm.org.apache.spark.sql.SparkSession.setActiveSession(session)
    gateway = table.spark.sparkContext._gateway  # noqa: SLF001 - pyspark's own access to py4j
    given = gateway.new_array(java.Object, 4)
    given[0], given[1], given[2] = session, table.java, snapshot
    given[3] = table.jvm.java.util.ArrayList(list(columns))
    return generate.invoke(None, given)


def written(table: OpenTable, path: str, snapshot: int, blobs: Any) -> Any:
    """Write blobs to a file. Return the `org.apache.iceberg.StatisticsFile`."""
    iceberg = table.jvm.org.apache.iceberg
    writer = iceberg.puffin.Puffin.write(table.java.io().newOutputFile(path)).createdBy("Lakewarden").build()
    try:
        for blob in blobs:
            writer.add(blob)
        writer.finish()
        metadata = getattr(iceberg.GenericBlobMetadata, "from")(writer.writtenBlobsMetadata())
        size, footer = writer.fileSize(), writer.footerSize()
    finally:
        writer.close()
    return iceberg.GenericStatisticsFile(snapshot, path, size, footer, metadata)


def partition_statistics(table: OpenTable, snapshot: int) -> Any:
    """Write the counts by partition. Return the `org.apache.iceberg.PartitionStatisticsFile`, or None for a table
    without partitions, and for counts that are not those of the snapshot's summary.

    They are computed anew: Iceberg would go on from older counts, which are wrong as soon as a spec has lost a field
    (apache/iceberg#17915, run with 1.11.0). They have the format of the table's files, but Iceberg cannot write them in
    ORC (run with 1.11.0). The transaction that forgets the older counts, and ORC, is never committed.
    """
    iceberg = table.jvm.org.apache.iceberg
    if iceberg.Partitioning.partitionType(table.java).fields().isEmpty():
        return None
    without = table.java.newTransaction()
    forgets = without.updatePartitionStatistics()
    for file in table.java.partitionStatisticsFiles():
        forgets.removePartitionStatistics(file.snapshotId())
    forgets.commit()
    if "orc" in dict(table.java.properties()).get(_FORMAT, "").lower():
        without.updateProperties().set(_FORMAT, "parquet").commit()
    file = iceberg.PartitionStatsHandler.computeAndWriteStatsFile(without.table(), snapshot)
    if _add_up(table, file, snapshot):
        return file
    log.warning("partition_counts_left_out", run=table.assignment.run, snapshot=snapshot)
    table.java.io().deleteFile(file.path())
    return None


def _add_up(table: OpenTable, file: Any, snapshot: int) -> bool:
    """Whether the counts by partition of a snapshot are the rows that its summary tells, and none is negative."""
    handler = table.jvm.org.apache.iceberg.PartitionStatsHandler
    kind = table.jvm.org.apache.iceberg.Partitioning.partitionType(table.java)
    schema = handler.schema(kind, table.jvm.org.apache.iceberg.TableUtil.formatVersion(table.java))
    rows = handler.readPartitionStatsFile(schema, table.java.io().newInputFile(file.path()))
    try:
        counts = [(int(row.dataRecordCount()), int(row.dataFileCount())) for row in each(rows.iterator())]
    finally:
        rows.close()
    total = dict(table.java.snapshot(snapshot).summary()).get("total-records", "")
    return min(map(min, counts), default=0) >= 0 and str(sum(of_rows for of_rows, _ in counts)) == total


# The figures of a run, from the summaries of the snapshots with its name.


_SUMMED = {
    "files_rewritten": "deleted-data-files",
    "files_added": "added-data-files",
    "bytes_rewritten": "removed-files-size",
    "delete_files_removed": "removed-delete-files",
}


def figures_of(table: OpenTable) -> Mapping[str, int]:
    """Return the figures of the run that has the table open. They are empty if the table cannot be read now. Its
    commits count all the same.
    """
    try:
        snapshots = table.metadata().snapshots
    except LakewardenError as error:
        log.warning("figures_unreadable", run=table.assignment.run, reason=str(error))
        return {}
    ours = [snapshot for snapshot in snapshots if snapshot.summary.get(RUN_ID) == table.assignment.run]
    summed = {name: sum(mine.count(key) for mine in ours) for name, key in _SUMMED.items()}
    return {**summed, "commits": len(ours)}
