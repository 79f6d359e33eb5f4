"""The file groups that Iceberg's own planner would rewrite, computed without it. Pure.

The rules are those of `SizeBasedFileRewritePlanner` and `BinPackRewriteFilePlanner` of Iceberg 1.11.0. The deletes of a
file are those of `DeleteFileIndex`. The same rules compute the backlog and the files that a run rewrites together.
There are two differences. Here an equality delete counts for every file that is old enough. The planner leaves out
files with column bounds that do not meet. And files of some old specs may be grouped by their own partitions, and stay
in their spec.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.files import PartitionTally, TallyKey
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, TableMetadata
from lakewarden.planners.formats.iceberg.rewriting.selection import EVERYTHING, Selection, Thresholds


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files that are rewritten together. `partitions` are those of the files. There are several if the files are of old
    partition specs, which are grouped as if the table had no partitions. `oldest` and `newest` are the least and the
    greatest sequence number. `opened` counts the files that a reader opens: the files, and for each the delete files
    that apply to it. `keys` stand for the files (`LiveFile.key`). They are empty for tallied files. `spec` is the
    partition spec of the new files. `left` are the other specs of the old files.
    """

    partitions: frozenset[str]
    files: int
    bytes: int
    opened: int
    oldest: int
    newest: int = 0
    keys: tuple[int, ...] = ()
    spec: int = 0
    left: frozenset[int] = frozenset()


def file_groups(
    files: Sequence[LiveFile],
    metadata: TableMetadata,
    rules: Thresholds,
    tallies: Mapping[TallyKey, PartitionTally] = MappingProxyType({}),
    *,
    keeps: Collection[int] = (),
    may: Selection = EVERYTHING,
) -> tuple[Group, ...]:
    """Return every group that the planner would make of a snapshot's `files` and of the tallied files. If the tallied
    files of a partition need several groups, they are split as if all had the same size and age.

    Files of the specs in `keeps` are grouped by their own partitions, and stay in their spec. Only files that a rewrite
    `may` take count.
    """
    deletes = _Deletes((file for file in files if file.content is not FileContent.DATA), metadata.specs)
    by_partition: dict[TallyKey, list[_Candidate]] = defaultdict(list)
    for file in files:
        if file.content is not FileContent.DATA or not may.takes(file):
            continue
        candidate = _Candidate(file, *deletes.of(file))
        if rules.everything or _deserves_it(candidate, rules):
            by_partition[_place((file.spec, file.partition), metadata, keeps)].append(candidate)
    exact = (
        _group(packed, spec)
        for (spec, _), candidates in sorted(by_partition.items(), key=_by_name)
        for packed in _packed(sorted(candidates, key=_by_age), rules)
        if rules.everything or _is_worth_it(packed, rules)
    )
    left = {place: tally for place, tally in tallies.items() if may.takes_from(place[1])}
    return (*exact, *_of_tallies(left, metadata, rules, keeps))


def _place(place: TallyKey, metadata: TableMetadata, keeps: Collection[int]) -> TallyKey:
    """Return the spec and the partition into which the files of a place are rewritten together."""
    return place if place[0] in keeps else (metadata.default_spec, grouped_as(*place, metadata))


def _by_name(group: tuple[TallyKey, Any]) -> tuple[str, int]:
    spec, partition = group[0]
    return partition, spec


def _of_tallies(
    tallies: Mapping[TallyKey, PartitionTally], metadata: TableMetadata, rules: Thresholds, keeps: Collection[int]
) -> Iterator[Group]:
    """Yield the groups of the files without deletes."""
    by_group: dict[TallyKey, list[TallyKey]] = defaultdict(list)
    for place, tally in tallies.items():
        if tally.odd:
            by_group[_place(place, metadata, keeps)].append(place)
    for (spec, _), places in sorted(by_group.items(), key=_by_name):
        those = [tallies[place] for place in places]
        files, size = sum(tally.odd for tally in those), sum(tally.bytes for tally in those)
        most = max(1, min(rules.group_files, rules.group_bytes * files // max(1, size)))
        for begin in range(0, files, most):
            number = min(most, files - begin)
            share = size * (begin + number) // files - size * begin // files
            if _is_worth_its_size(number, share, rules):
                yield Group(
                    partitions=frozenset(partition for _, partition in places),
                    files=number,
                    bytes=share,
                    opened=number,
                    oldest=min(tally.oldest for tally in those),
                    newest=max(tally.newest for tally in those),
                    spec=spec,
                    left=frozenset(old for old, _ in places) - {spec},
                )


class _Candidate(NamedTuple):
    """A data file, how many delete files apply to it, and how many of its rows are deleted by delete files for it
    alone.
    """

    file: LiveFile
    deletes: int
    deleted: int


def _by_age(candidate: _Candidate) -> tuple[int, int]:
    return candidate.file.sequence, candidate.file.key


def grouped_as(spec: int, partition: str, metadata: TableMetadata) -> str:
    """Return the partition under which files are grouped. Files of old specs, and files with null in every field, are
    grouped under the partition with null in every field.
    """
    fields = metadata.specs.get(metadata.default_spec, ())
    nulls = "/".join("null" for _ in fields)
    if spec != metadata.default_spec:
        return nulls
    values = "/".join(part.rpartition("=")[2] for part in partition.split("/"))
    return nulls if values == nulls else partition


def _deserves_it(candidate: _Candidate, rules: Thresholds) -> bool:
    """Whether a file is a candidate (`filterFiles`)."""
    return not rules.smallest <= candidate.file.size <= rules.largest or _has_too_many_deletes(candidate, rules)


def _has_too_many_deletes(candidate: _Candidate, rules: Thresholds) -> bool:
    if rules.delete_files is not None and candidate.deletes >= rules.delete_files:
        return True
    rows = candidate.file.records
    return rows > 0 and min(candidate.deleted, rows) / rows >= rules.delete_ratio


def _is_worth_it(group: Sequence[_Candidate], rules: Thresholds) -> bool:
    """Whether a group is rewritten (`filterFileGroups`)."""
    size = sum(candidate.file.size for candidate in group)
    return _is_worth_its_size(len(group), size, rules) or any(
        _has_too_many_deletes(candidate, rules) for candidate in group
    )


def _is_worth_its_size(files: int, size: int, rules: Thresholds) -> bool:
    return (files > 1 and (files >= rules.min_input_files or size > rules.target)) or size > rules.largest


def _packed(candidates: Iterable[_Candidate], rules: Thresholds) -> Iterator[list[_Candidate]]:
    """Yield the candidates in bins. A bin is closed when the next file does not fit (`BinPacking`, looking back one
    bin).
    """
    current: list[_Candidate] = []
    size = 0
    for candidate in candidates:
        if current and (size + candidate.file.size > rules.group_bytes or len(current) >= rules.group_files):
            yield current
            current, size = [], 0
        current.append(candidate)
        size += candidate.file.size
    if current:
        yield current


def _group(packed: Sequence[_Candidate], spec: int) -> Group:
    return Group(
        partitions=frozenset(candidate.file.partition for candidate in packed),
        files=len(packed),
        bytes=sum(candidate.file.size for candidate in packed),
        opened=sum(1 + candidate.deletes for candidate in packed),
        oldest=min(candidate.file.sequence for candidate in packed),
        newest=max(candidate.file.sequence for candidate in packed),
        keys=tuple(candidate.file.key for candidate in packed),
        spec=spec,
        left=frozenset(candidate.file.spec for candidate in packed) - {spec},
    )


class _Deletes:
    """The delete files of a snapshot, by the data files to which they apply.

    A position delete applies to files with the same age or older. An equality delete applies only to older files. A
    delete of a spec without partitions applies to files of every spec. If a file has a deletion vector, the vector
    contains its position deletes.
    """

    def __init__(self, deletes: Iterable[LiveFile], specs: Mapping[int, tuple[PartitionField, ...]]) -> None:
        self._everywhere: list[int] = []
        self._equality: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._positions: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._of_file: dict[int, list[LiveFile]] = defaultdict(list)
        self._vectors: dict[int, LiveFile] = {}
        for delete in deletes:
            if delete.references is not None and delete.is_vector:
                self._vectors[delete.references] = delete
            elif delete.references is not None and delete.content is FileContent.POSITION_DELETES:
                self._of_file[delete.references].append(delete)
            elif delete.content is FileContent.POSITION_DELETES:
                self._positions[delete.spec, delete.partition].append(delete.sequence)
            elif is_unpartitioned(specs.get(delete.spec, ())):
                self._everywhere.append(delete.sequence)
            else:
                self._equality[delete.spec, delete.partition].append(delete.sequence)
        for sequences in (self._everywhere, *self._equality.values(), *self._positions.values()):
            sequences.sort()

    def of(self, file: LiveFile) -> tuple[int, int]:
        """Return how many delete files apply to a data file, and how many rows are deleted by those that are for it
        alone.
        """
        where = file.spec, file.partition
        by_equality = _after(self._everywhere, file) + _after(self._equality.get(where, ()), file)
        vector = self._vectors.get(file.key)
        if vector is not None:
            return by_equality + 1, vector.records
        own = [delete for delete in self._of_file.get(file.key, ()) if delete.sequence >= file.sequence]
        shared = self._positions.get(where, ())
        by_position = len(shared) - bisect_left(shared, file.sequence)
        return by_equality + by_position + len(own), sum(max(0, delete.records) for delete in own)


def _after(sequences: Sequence[int], file: LiveFile) -> int:
    return len(sequences) - bisect_right(sequences, file.sequence)


def is_unpartitioned(fields: Iterable[PartitionField]) -> bool:
    """Whether a spec with these fields puts all files into one partition."""
    return all(field.transform == "void" for field in fields)


# The sizes of the new files of a group, by the rules of `SizeBasedFileRewritePlanner` of Iceberg 1.11.0. Pure.
#
# A run passes these numbers to Iceberg's rewriter. tests/integration/iceberg/test_prediction.py compares them with
# those of the planner.

_SPLIT_OVERHEAD = 5 * 2**10


def largest_output(rules: Thresholds) -> int:
    """Return the most bytes of a new file (`writeMaxFileSize`)."""
    return int(rules.target + (rules.largest - rules.target) * 0.5)


def split_size(size: int, rules: Thresholds) -> int:
    """Return the bytes that one task reads, for a group of `size` bytes (`inputSplitSize`)."""
    estimated = size // expected_files(size, rules) + _SPLIT_OVERHEAD
    return rules.target if estimated < rules.target else min(estimated, largest_output(rules))


def expected_files(size: int, rules: Thresholds) -> int:
    """Return how many new files a group of `size` bytes becomes (`expectedOutputFiles`)."""
    if size < rules.target:
        return 1
    whole, remainder = divmod(size, rules.target)
    rounded_up = whole + (remainder > 0)
    if remainder > rules.smallest:
        return rounded_up
    return whole if size // whole < min(1.1 * rules.target, largest_output(rules)) else rounded_up
