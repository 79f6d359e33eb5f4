"""Resizing: the clustering of a table whose writers hash consistently. Large buckets are split, small ones merged.

Which file group holds a key changes with it, and writers learn that from the metadata below `.hoodie/.bucket_index`,
which the commit of the clustering makes valid. Until then they write to the old file groups and, by the update strategy
that `writer-options` print, to the new ones as well.
"""

from __future__ import annotations

from lakewarden.planners.formats.hudi.buckets import BucketIndex
from lakewarden.planners.formats.hudi.options import Buckets
from lakewarden.planners.formats.hudi.service_options import ClusteringOptions

_CLUSTERING = "org.apache.hudi.client.clustering"


def resizing(buckets: Buckets, options: ClusteringOptions) -> dict[str, str]:
    """Return what such a clustering sets beside what every clustering does; nothing where buckets cannot be resized.

    A bucket is split where it is larger than twice `target_file_max_bytes`, and merged below a fifth of it, by Hudi's
    `hoodie.bucket.index.split.threshold` and `.merge.threshold`.
    """
    if buckets.engine is not BucketIndex.CONSISTENT_HASHING:
        return {}
    hashed = {"hoodie.bucket.index.hash.field": ",".join(buckets.hash_fields)} if buckets.hash_fields else {}
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": str(buckets.min_buckets),
        "hoodie.bucket.index.min.num.buckets": str(buckets.min_buckets),
        "hoodie.bucket.index.max.num.buckets": str(buckets.max_buckets),
        "hoodie.parquet.max.file.size": str(options.target_file_max_bytes),
        "hoodie.clustering.plan.strategy.class": (
            f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
        ),
        "hoodie.clustering.execution.strategy.class": (
            f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
        ),
        "hoodie.clustering.updates.strategy": (
            f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
        ),
        **hashed,
    }
