"""What Iceberg's own planner would rewrite of a table: its file groups, told without it. Pure.

The rules are those of `SizeBasedFileRewritePlanner` and `BinPackRewriteFilePlanner` of Iceberg 1.11.0, the deletes of a
file those of `DeleteFileIndex`. The same rules decide what has piled up and which files a run takes together, of those
that the planner names. One thing cannot be told: equality deletes count for every file that is old enough, where the
planner leaves out those whose columns' bounds do not meet. And one is not the planner's: files of some old specs may be
grouped by their own partitions, and stay in their spec.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.tallies import Place, Tally
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.model.errors import PermanentError

_TARGET = "write.target-file-size-bytes"
_TARGET_BY_DEFAULT = 512 * 2**20
_SMALLER, _LARGER = 0.75, 1.8


class ContradictoryThresholdsError(PermanentError):
    """Iceberg's planner would refuse the sizes that it is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """What the planner goes by, in bytes, files and shares. With `everything` a file is rewritten whatever it is like
    (`rewrite-all`).
    """

    target: int
    smallest: int
    largest: int
    min_input_files: int
    delete_files: int | None
    delete_ratio: float
    group_bytes: int
    group_files: int
    everything: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files that are rewritten together. `partitions` are those of the files: several where they are of old partition
    specs, which are grouped as if the table had none. `oldest` and `newest` are the least and the greatest sequence
    number, `pieces` counts what a reader opens: the files, and for each the delete files that apply to it. `keys` stand
    for the files (`LiveFile.key`); nothing does where they are tallied. `spec` is the one by which the new files are
    partitioned, `left` are those of other files.
    """

    partitions: frozenset[str]
    files: int
    bytes: int
    pieces: int
    oldest: int
    newest: int = 0
    keys: tuple[int, ...] = ()
    spec: int = 0
    left: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Of the groups that could be rewritten: those that one run `takes`, those that are `left_alone` for a writer's
    sake, and those that are `left` for the next run.
    """

    takes: tuple[Group, ...]
    left_alone: tuple[Group, ...]
    left: tuple[Group, ...]


def thresholds(options: RewriteOptions, properties: Mapping[str, str], *, everything: bool = False) -> Thresholds:
    """Return what the planner goes by. Raises ContradictoryThresholdsError where it would refuse it."""
    target = options.target_file_size or _number(properties, _TARGET, _TARGET_BY_DEFAULT)
    smallest = int(target * _SMALLER) if options.min_file_size is None else options.min_file_size
    largest = int(target * _LARGER) if options.max_file_size is None else options.max_file_size
    if not smallest < target < largest:
        raise ContradictoryThresholdsError(
            f"a file is to have {target} bytes, and would be rewritten for having less than {smallest} or more than "
            f"{largest}"
        )
    return Thresholds(
        target=target,
        smallest=smallest,
        largest=largest,
        min_input_files=options.min_input_files,
        delete_files=options.delete_file_threshold,
        delete_ratio=options.delete_ratio_threshold,
        group_bytes=options.max_file_group_size,
        group_files=options.max_files,
        everything=everything,
    )


def planner_options(rules: Thresholds) -> dict[str, str]:
    """Return the same as the options of Iceberg's planner."""
    found = {
        "target-file-size-bytes": rules.target,
        "min-file-size-bytes": rules.smallest,
        "max-file-size-bytes": rules.largest,
        "min-input-files": rules.min_input_files,
        "delete-ratio-threshold": rules.delete_ratio,
        "max-file-group-size-bytes": rules.group_bytes,
        "max-file-group-input-files": rules.group_files,
        "rewrite-all": str(rules.everything).lower(),
    }
    if rules.delete_files is not None:
        found["delete-file-threshold"] = rules.delete_files
    return {key: str(value) for key, value in found.items()}


def file_groups(
    files: Sequence[LiveFile],
    metadata: TableMetadata,
    rules: Thresholds,
    tallies: Mapping[Place, Tally] = MappingProxyType({}),
    *,
    keeps: Collection[int] = (),
) -> tuple[Group, ...]:
    """Return every group that the planner would make of a snapshot's `files`, and of those of which there are tallies,
    those of one partition together. How the tallied files of a partition share groups, where one is not enough, is told
    as if all were of the same size and age.

    Files of the specs that it `keeps` are grouped by their own partitions, and stay in their spec.
    """
    deletes = _Deletes((file for file in files if file.content is not Content.DATA), metadata.specs)
    by_partition: dict[Place, list[_Candidate]] = defaultdict(list)
    for file in files:
        if file.content is not Content.DATA:
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
    return (*exact, *_of_tallies(tallies, metadata, rules, keeps))


def _place(place: Place, metadata: TableMetadata, keeps: Collection[int]) -> Place:
    """Return the spec and the partition into which files of a place are rewritten together."""
    return place if place[0] in keeps else (metadata.default_spec, grouped_as(*place, metadata))


def _by_name(group: tuple[Place, Any]) -> tuple[str, int]:
    spec, partition = group[0]
    return partition, spec


def _of_tallies(
    tallies: Mapping[Place, Tally], metadata: TableMetadata, rules: Thresholds, keeps: Collection[int]
) -> Iterator[Group]:
    """Yield the groups of files to which no deletes apply."""
    by_group: dict[Place, list[Place]] = defaultdict(list)
    for place, tally in tallies.items():
        if tally.odd:
            by_group[_place(place, metadata, keeps)].append(place)
    for (spec, _), places in sorted(by_group.items(), key=_by_name):
        those = [tallies[place] for place in places]
        files, size = sum(one.odd for one in those), sum(one.bytes for one in those)
        most = max(1, min(rules.group_files, rules.group_bytes * files // max(1, size)))
        for begin in range(0, files, most):
            number = min(most, files - begin)
            share = size * (begin + number) // files - size * begin // files
            if _is_worth_its_size(number, share, rules):
                yield Group(
                    partitions=frozenset(partition for _, partition in places),
                    files=number,
                    bytes=share,
                    pieces=number,
                    oldest=min(one.oldest for one in those),
                    newest=max(one.newest for one in those),
                    spec=spec,
                    left=frozenset(old for old, _ in places) - {spec},
                )


def choose(groups: Iterable[Group], hot: Iterable[str], *, max_files: int, max_bytes: int) -> Choice:
    """Return what one run takes of the `groups`: the most fragmented partitions first, the older first among equals,
    until the bounds are reached. A group of which one partition is `hot` is left alone. The first that is taken may
    have more bytes than `max_bytes`.
    """
    avoided = frozenset(hot)
    takes: list[Group] = []
    left_alone: list[Group] = []
    left: list[Group] = []
    files = size = 0
    for group in _most_fragmented_first(groups):
        if not avoided.isdisjoint(group.partitions):
            left_alone.append(group)
        elif files + group.files <= max_files and (not takes or size + group.bytes <= max_bytes):
            takes.append(group)
            files, size = files + group.files, size + group.bytes
        else:
            left.append(group)
    return Choice(takes=tuple(takes), left_alone=tuple(left_alone), left=tuple(left))


def _most_fragmented_first(groups: Iterable[Group]) -> Sequence[Group]:
    """Return the groups in the order in which they are taken, those of a partition one after the other."""
    found = tuple(groups)
    pieces: dict[frozenset[str], int] = defaultdict(int)
    oldest: dict[frozenset[str], int] = {}
    for group in found:
        pieces[group.partitions] += group.pieces
        oldest[group.partitions] = min(group.oldest, oldest.get(group.partitions, group.oldest))
    return sorted(
        found,
        key=lambda group: (
            -pieces[group.partitions],
            oldest[group.partitions],
            sorted(group.partitions),
            group.oldest,
            -group.pieces,
            group.keys,
        ),
    )


class _Candidate(NamedTuple):
    """A data file, how many delete files apply to it, and how many of its rows those delete that are for it alone."""

    file: LiveFile
    deletes: int
    deleted: int


def _by_age(candidate: _Candidate) -> tuple[int, int]:
    return candidate.file.sequence, candidate.file.key


def grouped_as(spec: int, partition: str, metadata: TableMetadata) -> str:
    """Return the partition as which files are grouped. Files of old specs are grouped as the one whose values are all
    null, and so are those that really are in it.
    """
    fields = metadata.specs.get(metadata.default_spec, ())
    nulls = "/".join("null" for _ in fields)
    if spec != metadata.default_spec:
        return nulls
    values = "/".join(part.rpartition("=")[2] for part in partition.split("/"))
    return nulls if values == nulls else partition


def _deserves_it(one: _Candidate, rules: Thresholds) -> bool:
    """Whether a file is a candidate (`filterFiles`)."""
    return not rules.smallest <= one.file.size <= rules.largest or _has_too_many_deletes(one, rules)


def _has_too_many_deletes(one: _Candidate, rules: Thresholds) -> bool:
    if rules.delete_files is not None and one.deletes >= rules.delete_files:
        return True
    rows = one.file.records
    return rows > 0 and min(one.deleted, rows) / rows >= rules.delete_ratio


def _is_worth_it(group: Sequence[_Candidate], rules: Thresholds) -> bool:
    """Whether a group is rewritten (`filterFileGroups`)."""
    size = sum(one.file.size for one in group)
    return _is_worth_its_size(len(group), size, rules) or any(_has_too_many_deletes(one, rules) for one in group)


def _is_worth_its_size(files: int, size: int, rules: Thresholds) -> bool:
    return (files > 1 and (files >= rules.min_input_files or size > rules.target)) or size > rules.largest


def _packed(candidates: Iterable[_Candidate], rules: Thresholds) -> Iterator[list[_Candidate]]:
    """Yield candidates in bins: each is closed when the next file does not fit (`BinPacking`, looking back one bin)."""
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
        partitions=frozenset(one.file.partition for one in packed),
        files=len(packed),
        bytes=sum(one.file.size for one in packed),
        pieces=sum(1 + one.deletes for one in packed),
        oldest=min(one.file.sequence for one in packed),
        newest=max(one.file.sequence for one in packed),
        keys=tuple(one.file.key for one in packed),
        spec=spec,
        left=frozenset(one.file.spec for one in packed) - {spec},
    )


class _Deletes:
    """The delete files of a snapshot, by the data files that they apply to.

    A position delete applies to files that are as old as it or older, an equality delete only to older ones, and one
    of a spec without partitions to files of every spec. Where a file has a deletion vector, its position deletes are
    in it.
    """

    def __init__(self, deletes: Iterable[LiveFile], specs: Mapping[int, tuple[PartitionField, ...]]) -> None:
        self._everywhere: list[int] = []
        self._equality: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._positions: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._of_file: dict[int, list[LiveFile]] = defaultdict(list)
        self._vectors: dict[int, LiveFile] = {}
        for one in deletes:
            if one.references is not None and one.is_vector:
                self._vectors[one.references] = one
            elif one.references is not None and one.content is Content.POSITION_DELETES:
                self._of_file[one.references].append(one)
            elif one.content is Content.POSITION_DELETES:
                self._positions[one.spec, one.partition].append(one.sequence)
            elif is_unpartitioned(specs.get(one.spec, ())):
                self._everywhere.append(one.sequence)
            else:
                self._equality[one.spec, one.partition].append(one.sequence)
        for sequences in (self._everywhere, *self._equality.values(), *self._positions.values()):
            sequences.sort()

    def of(self, file: LiveFile) -> tuple[int, int]:
        """Return how many delete files apply to a data file, and how many rows those delete that are for it alone."""
        where = file.spec, file.partition
        by_equality = _after(self._everywhere, file) + _after(self._equality.get(where, ()), file)
        vector = self._vectors.get(file.key)
        if vector is not None:
            return by_equality + 1, vector.records
        own = [one for one in self._of_file.get(file.key, ()) if one.sequence >= file.sequence]
        shared = self._positions.get(where, ())
        by_position = len(shared) - bisect_left(shared, file.sequence)
        return by_equality + by_position + len(own), sum(one.records for one in own)


def _after(sequences: Sequence[int], file: LiveFile) -> int:
    return len(sequences) - bisect_right(sequences, file.sequence)


def is_unpartitioned(fields: Iterable[PartitionField]) -> bool:
    """Whether files of a spec with these fields are in one partition."""
    return all(one.transform == "void" for one in fields)


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    text = properties.get(key, str(otherwise)).strip()
    found = counted(text)
    if not found:
        raise ContradictoryThresholdsError(f"the table's property {key} is {text[:40]!r}, and no number of bytes")
    return found
