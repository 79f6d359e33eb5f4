"""Bucket indexes: the file groups of a table are the buckets into which its writers hash their keys.

A clustering by size removes file groups and makes others, which writers that hash do not know. Under a simple bucket
index the new file groups have no bucket. Under consistent hashing the writers continue to write to the replaced file
groups (docs/hudi.md). The writers' own options name their index, but the table shows it, too. Two kinds keep metadata
below `.hoodie/.bucket_index`: consistent hashing, and a number of buckets that depends on the partition. The file
groups of a simple bucket index begin with the number of their bucket (`BucketIdentifier.newBucketFileIdPrefix`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from lakewarden.planners.formats.hudi.metadata.table_properties import HOME
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

_CONSISTENT = "consistent_hashing_metadata"
_BY_PARTITION = "partition_bucket_index_meta"
_NUMBER = re.compile(r"\.?(\d{8})-.*", re.ASCII | re.DOTALL)
_CERTAIN_BELOW = 10_000
_LIKELY_BELOW = 1_000_000
_LIKELY_SHARE = 0.05
"""Of names that are given by chance, one in 43 begins with eight digits, one in 4,300 with a number below a million,
and one in 430,000 with a number below 10,000."""


def shown_beside(location: str, storage: Storage) -> BucketIndex | None:
    """Return the bucket index with metadata beside the table. None if there is none. Raises OSError."""
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


def why_not_clustered(declared: BucketIndex | None, location: str, storage: Storage) -> Blocker | None:
    """Return why a clustering must not be planned, by the metadata of buckets beside the table and by the `declared`
    index. None if nothing forbids it. Raises OSError.
    """
    shown = shown_beside(location, storage)
    if declared is BucketIndex.SIMPLE or shown is BucketIndex.SIMPLE:
        return _not_clustered("use a bucket index, and its files must not be clustered", _NO_POLICY)
    if shown is BucketIndex.CONSISTENT_HASHING and declared is None:
        return _not_clustered("hash into buckets consistently, and would go on writing to replaced files", _DECLARE)
    if declared is BucketIndex.CONSISTENT_HASHING and shown is None:
        return _not_clustered("do not hash consistently, as options.bucket_index says", "correct options.bucket_index")
    return None


def _not_clustered(what: str, remedy: str) -> Blocker:
    return Blocker(
        services=frozenset({Service.CLUSTERING}),
        code="writers_do_not_block",
        reason=f"the table's writers {what}",
        remedy=remedy,
    )


_NO_POLICY = "remove its clustering policy"
_DECLARE = """\
let a clustering split and merge its buckets instead:
  options:
    bucket_index: {engine: consistent_hashing, min_buckets: LEAST, max_buckets: MOST}
and give the writers what `lakewarden writer-options` prints; or remove the clustering policy"""
