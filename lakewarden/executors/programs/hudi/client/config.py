"""The `hoodie.*` settings of our write client: first those of the table, last those that guard the table.

Only the keys that Hudi itself keeps in `hoodie.properties` are taken from there. Every writer of a table can also write
that file, and a write client would obey any key in it. `hoodie.base.path` moved its whole work to another table (run).
Other keys name a server that is asked for listings, or classes to be loaded.

Pure: settings in, settings out. Keys are spelled as in the bundle's Hudi (1.2). It also knows the older names, but the
newer name prevails if both are set. So an older name cannot override ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from lakewarden.planners.formats.hudi.options.locks import OURS_ALONE, lock_keys, wait_keys
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions

# How a rewrite of ours reaches the metadata table, which live writers write at the same time.
#
# From 1.1 on, on table version 8 and above, a client streams: it begins its instant in the metadata table while it
# still writes data, long before its commit takes the table's lock. Older clients begin it within their commit, and
# first roll back everything in flight there. Beside both we must do neither. Our instants must not be in flight there
# outside of the table's lock, or an older client rolls them back. We must roll back nothing of others, or a live write
# fails at its commit. Hudi has one switch for both. So it is off for the execution of a rewrite, and on for writing the
# metadata table (bytecode of 1.2.0, and run; docs/hudi.md).

STREAMING = "hoodie.metadata.streaming.write.enabled"
"""With it, a client's metadata table is written in a mode that rolls nothing back (`createMetadataWriteConfig`)."""


@contextlib.contextmanager
def left_for_the_commit(settings: Any) -> Iterator[None]:
    """Let a client with these settings write nothing to the metadata table while it executes a rewrite.

    No rollback may happen within: it would write the metadata table, and roll back what others have there.
    """
    part = settings.getMetadataConfig()  # a copy, which Hudi reads
    part.setValue(STREAMING, "false")
    try:
        yield
    finally:
        part.setValue(STREAMING, "true")


def settings_of_a_commit(hudi: Any, settings: Any) -> Any:
    """Return a copy of a client's settings that writes the metadata table and rolls nothing back in it."""
    return hudi.config.HoodieWriteConfig.newBuilder().withProps(settings.getProps()).build()


_ONE_SERVICE_AND_NOTHING_ELSE = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.log.compaction.inline": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.schedule.inline": "false",
    "hoodie.clustering.async.enabled": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.async.enabled": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.archive.async": "false",
    "hoodie.partition.ttl.inline": "false",
    "hoodie.table.services.enabled": "true",
    "hoodie.table.service.manager.enabled": "false",  # with it on, compact() refuses to run
    "hoodie.write.commit.callback.on": "false",
    "hoodie.metrics.on": "false",
}

_LEAVES_THE_TABLE_AS_IT_IS = {
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.auto.delete.partitions": "false",  # else 1.2 drops every index that our client has not on
}

# Hudi 1.2 refuses a rollback and a deletion of partitions on a table below version 9 with a complex key of one field.
# The next write could encode keys otherwise (HUDI-7001; run). Our client writes no row of its own.
_WRITES_NO_KEY = {
    "hoodie.write.complex.keygen.validation.enable": "false",
}

_LIGHT = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",  # the other type needs the timeline server
    # Each open log file of the metadata table has two buffers, which Java fills with zeros: 10 MiB each by default. A
    # warm compaction of three file groups took a fifth less time with small ones (run).
    "hoodie.metadata.max.reader.buffer.size": str(1024 * 1024),
}

# Otherwise our client rolls back live writers' instants in the metadata table, and they fail (`metadata_writes`).
_SPARES_METADATA_OF_OTHERS = {
    STREAMING: "true",
}

# Multi-writer mode even without another writer: only in it does the executor of an instant keep a heartbeat. Only
# because of the heartbeat does Hudi 1.2 keep a second executor from rolling back the first one's files.
_BESIDE_OTHERS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}

_OF_THE_TABLE = frozenset(
    {
        "hoodie.compaction.payload.class",
        "hoodie.compaction.record.merger.strategy",
        "hoodie.database.name",
        "hoodie.datasource.write.drop.partition.columns",
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.partition.metafile.use.base.format",
        "hoodie.payload.delete.field",
        "hoodie.payload.delete.marker",
        "hoodie.populate.meta.fields",
        "hoodie.record.merge.mode",
        "hoodie.record.merge.strategy.id",
        "hoodie.table.base.file.format",
        "hoodie.table.cdc.enabled",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.table.create.schema",
        "hoodie.table.format",
        "hoodie.table.initial.version",
        "hoodie.table.keygenerator.class",
        "hoodie.table.keygenerator.type",
        "hoodie.table.legacy.payload.class",
        "hoodie.table.log.file.format",
        "hoodie.table.metadata.partitions",
        "hoodie.table.metadata.partitions.inflight",
        "hoodie.table.multiple.base.file.formats.enable",
        "hoodie.table.name",
        "hoodie.table.ordering.fields",
        "hoodie.table.partial.update.mode",
        "hoodie.table.partition.fields",
        "hoodie.table.precombine.field",
        "hoodie.table.recordkey.fields",
        "hoodie.table.ro.file.format",
        "hoodie.table.rt.file.format",
        "hoodie.table.secondary.indexes.metadata",
        "hoodie.table.timeline.timezone",
        "hoodie.table.type",
        "hoodie.table.version",
        "hoodie.timeline.layout.version",
    }
)
"""The keys that `HoodieTableConfig` of the bundle (1.2) declares, except paths."""

_OF_THE_TABLE_BELOW = (
    "hoodie.record.merge.property.",
    "hoodie.keygen.timebased.",
    "hoodie.streamer.keygen.timebased.",
    "hoodie.deltastreamer.keygen.timebased.",
)


def of_the_table(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of `hoodie.properties` that say how the table is laid out, and none that direct a client."""
    return {
        key: value for key, value in properties.items() if key in _OF_THE_TABLE or key.startswith(_OF_THE_TABLE_BELOW)
    }


def client_settings(
    properties: Mapping[str, str],
    *,
    options: HudiTableOptions,
    service: Mapping[str, str],
    indexes: Mapping[str, str],
) -> dict[str, str]:
    """Return the settings of a client for one service of a table with these `properties` (`hoodie.properties`), and
    with the switches of its `indexes`.
    """
    lock = options.lock or OURS_ALONE
    return {
        **options.conf,
        **of_the_table(properties),
        **_ONE_SERVICE_AND_NOTHING_ELSE,
        **_LEAVES_THE_TABLE_AS_IT_IS,
        **_WRITES_NO_KEY,
        **_LIGHT,
        **_SPARES_METADATA_OF_OTHERS,
        **_BESIDE_OTHERS,
        **lock_keys(lock),
        **wait_keys(lock),
        **indexes,
        "hoodie.write.table.version": properties["hoodie.table.version"],
        **_keys(properties),
        **service,
    }


def _keys(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the table's record key under the writers' name for it, which a bucket index asks for. A table without meta
    fields (`hoodie.populate.meta.fields=false`) has its keys made from the rows, by its own key generator. That asks
    for the partition's fields (run, 0.15 and 1.0 tables), and Hudi's default needs some (run).
    """
    keys = {"hoodie.datasource.write.recordkey.field": properties.get("hoodie.table.recordkey.fields")}
    if properties.get("hoodie.populate.meta.fields") == "false":
        keys["hoodie.datasource.write.partitionpath.field"] = properties.get("hoodie.table.partition.fields")
        for part in ("class", "type"):
            key = f"hoodie.datasource.write.keygenerator.{part}"
            keys[key] = properties.get(f"hoodie.table.keygenerator.{part}")
    return {key: fields for key, fields in keys.items() if fields}
