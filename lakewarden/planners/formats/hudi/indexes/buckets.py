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

from lakewarden.planners.formats.hudi.metadata.table_properties import HOME
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex
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


def why_not_clustered(declared: BucketIndex | None, location: str, storage: Storage) -> Hindrance | None:
    """Return why a clustering must not be planned, by the metadata of buckets that the table keeps and by what its
    owner has `declared`; None where nothing tells against one. Raises OSError.
    """
    shown = shown_beside(location, storage)
    if declared is BucketIndex.SIMPLE or shown is BucketIndex.SIMPLE:
        return _not_clustered("use a bucket index, whose files must not be clustered", _NO_POLICY)
    if shown is BucketIndex.CONSISTENT_HASHING and declared is None:
        return _not_clustered("hash into buckets consistently, and would go on writing to replaced files", _DECLARE)
    if declared is BucketIndex.CONSISTENT_HASHING and shown is None:
        return _not_clustered("do not hash consistently, as options.bucket_index says", "correct options.bucket_index")
    return None


def _not_clustered(what: str, remedy: str) -> Hindrance:
    return Hindrance(services=frozenset({Service.CLUSTERING}), reason=f"the table's writers {what}", remedy=remedy)


_NO_POLICY = "remove its clustering policy"
_DECLARE = """\
let a clustering split and merge its buckets instead:
  options:
    bucket_index: {engine: consistent_hashing, min_buckets: LEAST, max_buckets: MOST}
and give the writers what `lakewarden writer-options` prints; or remove the clustering policy"""
