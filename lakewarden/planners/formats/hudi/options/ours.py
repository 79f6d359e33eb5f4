"""Keys that Lakewarden sets itself on its write client, and the setting with the same meaning in the configuration.

A user's value under such a key would be overridden silently. A test compares the list with the keys that the programs
set (`executors/programs/hudi`).
"""

from __future__ import annotations

from collections.abc import Mapping

_ALONE = ""
"""There is no setting: Lakewarden has to set the key as it does."""

_EXACTLY: Mapping[str, str] = {
    "hoodie.compaction.target.io": "services.compaction.options.target_io_mb",
    "hoodie.clean.policy": "services.clean.options.policy",
    "hoodie.cleaner.policy": "services.clean.options.policy",
    "hoodie.clean.commits.retained": "services.clean.options.commits_retained",
    "hoodie.cleaner.commits.retained": "services.clean.options.commits_retained",
    "hoodie.clean.fileversions.retained": "services.clean.options.file_versions_retained",
    "hoodie.cleaner.fileversions.retained": "services.clean.options.file_versions_retained",
    "hoodie.clean.hours.retained": "services.clean.options.hours_retained",
    "hoodie.cleaner.hours.retained": "services.clean.options.hours_retained",
    "hoodie.clean.incremental.enabled": "services.clean.options.incremental",
    "hoodie.cleaner.incremental.mode": "services.clean.options.incremental",
    "hoodie.clean.max.commits.to.clean": "services.clean.options.max_commits_to_clean",
    "hoodie.clean.trigger.strategy": "services.clean.trigger",
    "hoodie.clean.trigger.max.commits": "services.clean.trigger",
    "hoodie.compact.inline.trigger.strategy": "services.compaction.trigger",
    "hoodie.compact.inline.max.delta.commits": "services.compaction.trigger",
    "hoodie.compact.inline.max.delta.seconds": "services.compaction.trigger",
    "hoodie.log.compaction.blocks.threshold": "services.log_compaction.options.log_blocks_threshold",
    "hoodie.clustering.plan.strategy.sort.columns": "services.clustering.options.sort_columns",
    "hoodie.layout.optimize.strategy": "services.clustering.options.layout",
    "hoodie.clustering.plan.strategy.small.file.limit": "services.clustering.options.small_file_limit",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "services.clustering.options.target_file_max_bytes",
    "hoodie.clustering.plan.strategy.max.bytes.per.group": "services.clustering.options.max_bytes_per_group",
    "hoodie.clustering.plan.strategy.max.num.groups": "services.clustering.options.max_num_groups",
    "hoodie.clustering.plan.strategy.partition.regex.pattern": "services.clustering.options.partition_regex",
    "hoodie.clustering.plan.strategy.partition.selected": "services.clustering.options.partition_regex",
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled": _ALONE,
    "hoodie.clustering.plan.partition.filter.mode": _ALONE,
    "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution": _ALONE,
    "hoodie.keep.min.commits": "services.archive.options.keep_min_commits",
    "hoodie.keep.max.commits": "services.archive.options.keep_max_commits",
    "hoodie.archive.beyond.savepoint": _ALONE,
    "hoodie.partition.ttl.inline": "services.ttl",
    "hoodie.clean.automatic": "services.clean",
    "hoodie.clean.async": "services.clean",
    "hoodie.clean.async.enabled": "services.clean",
    "hoodie.archive.automatic": "services.archive",
    "hoodie.archive.async": "services.archive",
    "hoodie.compact.inline": "services.compaction",
    "hoodie.compact.schedule.inline": "services.compaction",
    "hoodie.log.compaction.inline": "services.log_compaction",
    "hoodie.log.compaction.enable": "services.log_compaction",
    "hoodie.clustering.inline": "services.clustering",
    "hoodie.clustering.schedule.inline": "services.clustering",
    "hoodie.clustering.async.enabled": "services.clustering",
    "hoodie.clean.failed.writes.policy": _ALONE,
    "hoodie.cleaner.policy.failed.writes": _ALONE,
    "hoodie.rollback.avoid.duplicate.plan": _ALONE,
    "hoodie.datasource.write.recordkey.field": _ALONE,
    "hoodie.datasource.write.partitionpath.field": _ALONE,
    "hoodie.index.type": "options.bucket_index",
    "hoodie.index.bucket.engine": "options.bucket_index",
    "hoodie.bucket.index.hash.field": "options.bucket_index.hash_fields",
    "hoodie.bucket.index.num.buckets": "options.bucket_index.min_buckets",
    "hoodie.bucket.index.min.num.buckets": "options.bucket_index.min_buckets",
    "hoodie.bucket.index.max.num.buckets": "options.bucket_index.max_buckets",
    "hoodie.write.concurrency.mode": _ALONE,
    "hoodie.write.auto.upgrade": _ALONE,
    "hoodie.write.complex.keygen.validation.enable": _ALONE,
    "hoodie.write.table.version": _ALONE,
    "hoodie.write.markers.type": _ALONE,
    "hoodie.write.commit.callback.on": _ALONE,
    "hoodie.write.empty.clean.interval.hours": _ALONE,
    "hoodie.embed.timeline.server": _ALONE,
    "hoodie.metrics.on": _ALONE,
    "hoodie.metadata.enable": _ALONE,
    "hoodie.metadata.auto.delete.partitions": _ALONE,
    "hoodie.metadata.streaming.write.enabled": _ALONE,
    "hoodie.metadata.global.record.level.index.enable": _ALONE,
    "hoodie.metadata.record.level.index.enable": _ALONE,
    "hoodie.metadata.index.column.stats.enable": _ALONE,
    "hoodie.metadata.index.partition.stats.enable": _ALONE,
    "hoodie.metadata.index.bloom.filter.enable": _ALONE,
    "hoodie.metadata.index.expression.enable": _ALONE,
    "hoodie.metadata.index.async": _ALONE,
}

_BELOW: Mapping[str, str] = {
    "hoodie.write.lock.": "options.lock",
    "hoodie.client.heartbeat.": _ALONE,
    "hoodie.table.": _ALONE,  # services and properties
}


def why_not(key: str) -> str | None:
    """Return why a key cannot stand in a table's `options.conf`, and what to use instead; None if it can."""
    if not key.startswith("hoodie."):
        return f"{_not_hudis(key)}: only hoodie.* options of Hudi's write client stand here"
    instead = _EXACTLY.get(key)
    if instead is None:
        instead = next((setting for start, setting in _BELOW.items() if key.startswith(start)), None)
    if instead is None:
        return None
    return f"Lakewarden sets this itself: {f'use {instead} instead' if instead else 'remove it'}"


def _not_hudis(key: str) -> str:
    if key.startswith("spark."):
        return "belongs to spark.<profile>.conf"
    if key.startswith(("fs.", "hadoop.", "dfs.")):
        return "is Hadoop's and belongs to the hadoop properties of a store, under storage"
    return "is none of Hudi's options"
