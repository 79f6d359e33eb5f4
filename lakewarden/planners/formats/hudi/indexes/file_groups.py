"""The file groups of a table as its active timeline shows them: their newest base files, and their log files.

Writes of archived commits are not seen, nor what a rollback appended (table version 6 rolls a log back by a further log
file). So the counts are what the active timeline knows for certain, and never too high.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakewarden.planners.formats.hudi.metadata.commits import Written
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.properties import HOME
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import listed

_MOST_GROUPS = 500_000
"""If a timeline wrote more base files than this, only one file group in so many is looked at."""


class Sum(NamedTuple):
    """Files, and their bytes."""

    files: int = 0
    bytes: int = 0

    def plus(self, files: int, size: int) -> Sum:
        """Return the sum."""
        return Sum(self.files + files, self.bytes + size)


NOTHING = Sum()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGroups:
    """`base_files` are the sizes in bytes of the newest base files. Each of them stands for `each`. `fullest` is the
    most log files, and the most bytes in log files, of one file group, as the next compaction would merge them.
    `fullest_unmerged` leaves out those that a log compaction has merged into one.

    A compaction of all log files would read `to_merge` of so many file groups (`merging`), `log_bytes` of it in logs.
    `superseded` are the files that a later commit has put out of use, by the time of that commit.
    """

    base_files: array[int]
    fullest: Sum
    fullest_unmerged: Sum
    each: int = 1
    to_merge: Sum = NOTHING
    merging: int = 0
    log_bytes: int = 0
    superseded: Mapping[str, Sum] = field(default_factory=dict)

    def smaller_than(self, limit: int) -> int:
        """Return how many newest base files are smaller than `limit` bytes."""
        return self.each * sum(size < limit for size in self.base_files)

    def put_out_of_use(self, *, since: str, before: str) -> Sum:
        """Return the files that were put out of use by the commits from one on, and before another."""
        totals = [total for at, total in self.superseded.items() if since <= at < before]
        return Sum(sum(total.files for total in totals), sum(total.bytes for total in totals))


def file_groups(known_instants: Sequence[Known], layout: Layout) -> FileGroups | None:
    """Return the table's file groups; None if the writes of one of the completed commits are not known."""
    commits = [instant for instant in known_instants if instant.is_commit and instant.files.state is State.COMPLETED]
    wrote = [(commit, commit.written) for commit in commits if commit.written is not None]
    if len(wrote) < len(commits):
        return None
    each = 1 + sum(len(written.bases.groups) for _, written in wrote) // _MOST_GROUPS
    bases = _Bases.of(wrote, each)
    logs: dict[int, dict[int, int]] = {}
    unmerged: dict[int, dict[int, int]] = {}
    old: dict[tuple[int, int], tuple[str, int]] = {}
    for commit, written in wrote:
        log_files = written.logs
        for group, name, size, slice_ in zip(
            log_files.groups, log_files.names, log_files.sizes, log_files.slices, strict=True
        ):
            if group % each:
                continue
            # Layout 1 names a log file after the base instant of its slice, layout 2 after its own instant. In layout 2
            # it belongs to the newest base file that was requested before the log's commit was completed.
            belongs_to = slice_ if layout is Layout.V1 else commit.files.ended
            if (superseded_at := bases.next_after(group, belongs_to)) is not None:
                old[group, name] = (superseded_at, size)
                continue
            logs.setdefault(group, {})[name] = size
            if commit.files.ended >= bases.merged.get(group, ""):
                unmerged.setdefault(group, {})[name] = size
    for superseded_at, size in old.values():
        bases.put_out_of_use(superseded_at, size)
    merged_bases = [bases.sizes[group] for group in logs if group in bases.sizes]
    of_logs = [size for sizes in logs.values() for size in sizes.values()]
    return FileGroups(
        base_files=array("q", bases.sizes.values()),
        fullest=_fullest(logs),
        fullest_unmerged=_fullest(unmerged),
        each=each,
        to_merge=Sum(each * (len(merged_bases) + len(of_logs)), each * (sum(merged_bases) + sum(of_logs))),
        merging=each * len(logs),
        log_bytes=each * sum(of_logs),
        superseded={at: Sum(each * total.files, each * total.bytes) for at, total in bases.superseded.items()},
    )


class _Bases:
    """The base files of file groups: the newest ones, and when each of the others was put out of use."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.merged: dict[int, str] = {}
        """When a log compaction last merged the log files of a file group."""
        self.superseded: dict[str, Sum] = {}
        self._since: dict[int, str] = {}
        self._later: dict[int, list[str]] = {}
        """The times of the base files after the first one. Most file groups have one base file."""
        self._replaced: dict[int, str] = {}

    @staticmethod
    def of(wrote: Sequence[tuple[Known, Written]], each: int) -> _Bases:
        """Return the base files that these commits wrote, of one file group in `each`."""
        bases = _Bases()
        for commit, written in wrote:
            at = commit.files.time
            bases._replaced.update(dict.fromkeys(written.replaced, at))
            for group, size in zip(written.bases.groups, written.bases.sizes, strict=True):
                if group % each == 0:
                    bases._add(group, size, at)
            if commit.stands_for is Service.LOG_COMPACTION:
                bases.merged.update(dict.fromkeys(written.logs.groups, at))
        for group, at in bases._replaced.items():
            if group in bases.sizes:
                bases.put_out_of_use(at, bases.sizes.pop(group))
        return bases

    def put_out_of_use(self, at: str, size: int) -> None:
        """Count a file that the commit of this time has put out of use."""
        self.superseded[at] = self.superseded.get(at, NOTHING).plus(1, size)

    def next_after(self, group: int, at: str) -> str | None:
        """Return when a file of the group that belongs to the base file of this time was put out of use. None if it is
        in use.
        """
        newer = [*self._later.get(group, ()), self._since.get(group, "")]
        times = [time for time in newer if time > at]
        if group in self._replaced:
            times.append(self._replaced[group])
        return min(times, default=None)

    def _add(self, group: int, size: int, at: str) -> None:
        if group in self.sizes:
            self.put_out_of_use(at, self.sizes[group])
            self._later.setdefault(group, []).append(at)
        self.sizes[group], self._since[group] = size, at


def _fullest(logs: Mapping[int, Mapping[int, int]]) -> Sum:
    return Sum(
        files=max(map(len, logs.values()), default=0),
        bytes=max((sum(sizes.values()) for sizes in logs.values()), default=0),
    )


# Bucket indexes: the file groups of a table are the buckets into which its writers hash their keys.
#
# A clustering by size removes file groups and makes others, which writers that hash do not know. Under a simple bucket
# index the new file groups have no bucket. Under consistent hashing the writers continue to write to the replaced file
# groups (docs/hudi.md). The writers' own options name their index, but the table shows it, too. Two kinds keep metadata
# below `.hoodie/.bucket_index`: consistent hashing, and a number of buckets that depends on the partition. The file
# groups of a simple bucket index begin with the number of their bucket (`BucketIdentifier.newBucketFileIdPrefix`).

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
    folders = {entry.name for entry in listed(f"{location}/{HOME}/.bucket_index", storage) if entry.is_folder}
    if _CONSISTENT in folders:
        return BucketIndex.CONSISTENT_HASHING
    return BucketIndex.SIMPLE if _BY_PARTITION in folders else None


def named_after_buckets(names: Collection[str]) -> bool:
    """Whether any of these data files, or file groups, is named after its bucket, and not by chance."""
    numbers = [int(match[1]) for match in map(_NUMBER.fullmatch, names) if match is not None]
    if any(number < _CERTAIN_BELOW for number in numbers):
        return True
    likely = len({number for number in numbers if number < _LIKELY_BELOW})
    return likely > 1 and likely >= _LIKELY_SHARE * len(names)


def why_not_clustered(declared: BucketIndex | None, location: str, storage: Storage) -> Blocker | None:
    """Return why a clustering must not be planned, by the metadata of buckets beside the table and by the `declared`
    index. None if nothing forbids it. Raises OSError.
    """
    index = shown_beside(location, storage)
    if declared is BucketIndex.SIMPLE or index is BucketIndex.SIMPLE:
        return _not_clustered("use a bucket index, and its files must not be clustered", _NO_POLICY)
    if index is BucketIndex.CONSISTENT_HASHING and declared is None:
        return _not_clustered("hash into buckets consistently, and would go on writing to replaced files", _DECLARE)
    if declared is BucketIndex.CONSISTENT_HASHING and index is None:
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
