"""Bucket indexes: the file groups of a table are the buckets into which its writers hash their keys.

A clustering by size takes file groups away and makes others. Writers that hash know of no others: under a simple bucket
index the new ones bear no bucket, and under consistent hashing they go on writing to the file groups that were replaced
(docs/hudi.md). What index writers use stands in their own options. The table shows it all the same: consistent hashing,
and buckets whose number depends on the partition, keep metadata below `.hoodie/.bucket_index`, and the file groups of a
simple bucket index begin with the number of their bucket (`BucketIdentifier.newBucketFileIdPrefix`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

from lakewarden.planners.formats.hudi.table_properties import HOME
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Hindrance
from lakewarden.planners.ports import Storage

_CONSISTENT = "consistent_hashing_metadata"
_BY_PARTITION = "partition_bucket_index_meta"
_NUMBER = re.compile(r"\.?(\d{8})-.*", re.ASCII | re.DOTALL)
_CERTAIN_BELOW = 10_000
_LIKELY_BELOW = 1_000_000
_LIKELY_SHARE = 0.05
"""A group that is named by chance begins with eight digits in one of 43 names, with a number below a million in one of
4,300, and with one below 10,000 in one of 430,000."""


class BucketIndex(StrEnum):
    """Which bucket index the writers of a table use (`hoodie.index.bucket.engine`)."""

    SIMPLE = "simple"
    CONSISTENT_HASHING = "consistent_hashing"


def shown_beside(location: str, storage: Storage) -> BucketIndex | None:
    """Return the bucket index that the table keeps metadata of; None if it keeps none. Raises OSError."""
    try:
        found = {entry.name for entry in storage.listing(f"{location}/{HOME}/.bucket_index") if entry.is_folder}
    except FileNotFoundError:
        return None
    if _CONSISTENT in found:
        return BucketIndex.CONSISTENT_HASHING
    return BucketIndex.SIMPLE if _BY_PARTITION in found else None


def named_after_buckets(names: Collection[str]) -> bool:
    """Whether any of these data files, or file groups, is named after its bucket, and not by chance."""
    found = [int(match[1]) for match in map(_NUMBER.fullmatch, names) if match is not None]
    if any(number < _CERTAIN_BELOW for number in found):
        return True
    likely = len({number for number in found if number < _LIKELY_BELOW})
    return likely > 1 and likely >= _LIKELY_SHARE * len(names)


def why_not_clustered(location: str, storage: Storage) -> Hindrance | None:
    """Return why a clustering must not be planned, by the metadata of buckets that the table keeps; None where it keeps
    none. Raises OSError.
    """
    shown = shown_beside(location, storage)
    if shown is None:
        return None
    return Hindrance(
        services=frozenset({Service.CLUSTERING}),
        reason=f"the table's writers {_WHAT[shown]}",
        remedy="remove its clustering policy",
    )


_WHAT = {
    BucketIndex.SIMPLE: "use a bucket index, whose files must not be clustered",
    BucketIndex.CONSISTENT_HASHING: "hash into buckets consistently, and would go on writing to replaced files",
}
