"""Which data files the options let a rewrite take, and the thresholds of the planner. Pure.

It is always safe to leave a file out of a rewrite. The planner's own groups are an arbitrary choice of a partition's
files, and sequence numbers alone decide where deletes apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.options.where import Where, parse_where, unknown_fields
from lakewarden.planners.formats.iceberg.rewriting.rewrite_all import Reach
from lakewarden.planners.model.errors import PermanentError


class UnknownFieldError(PermanentError):
    """A predicate over partitions names a field that no partition spec has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What a rewrite may take: files in the partitions that fit (None: all). A rewrite of all files takes the files
    within its `reach`. Those with a key in `without` stay.
    """

    where: Where | None = None
    reach: Reach | None = None
    without: frozenset[int] = frozenset()

    def takes(self, file: LiveFile) -> bool:
        """Whether a data file may be rewritten.

        If the manifest says that a file has no row, or does not know how many, the file stays. Iceberg refuses a
        rewrite that seems to add rows.
        """
        if file.records <= 0 or file.key in self.without:
            return False
        return self.takes_from(file.partition) and (self.reach is None or self.reach.has(file))

    def takes_from(self, partition: str) -> bool:
        """Whether files of a partition may be rewritten, according to its name."""
        return self.where is None or self.where.matches(partition)


EVERYTHING = Selection()


def selection(options: RewriteOptions, metadata: TableMetadata, *, reach: Reach | None = None) -> Selection:
    """Return what a rewrite by these options may take. Raises UnknownFieldError if no spec of the table has a field
    that the predicate names.
    """
    where = None if options.where is None else parse_where(options.where)
    if where is not None:
        field_names = sorted({field.name for fields in metadata.specs.values() for field in fields})
        unknown = unknown_fields(where, field_names)
        if unknown:
            has = f"its partition fields are {', '.join(field_names)}" if field_names else "it has no partitions"
            raise UnknownFieldError(f"where asks for {unknown[0]}, which the table is not partitioned by ({has})")
    return Selection(where=where, reach=reach)


# Which files a rewrite takes: the thresholds of Iceberg's planner, from the options of a policy.

_TARGET = "write.target-file-size-bytes"

_TARGET_BY_DEFAULT = 512 * 2**20

_SMALLER, _LARGER = 0.75, 1.8


class ContradictoryThresholdsError(PermanentError):
    """Iceberg's planner would refuse the configured sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """The thresholds of the planner, in bytes, files and shares. With `everything` every file is rewritten
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


def thresholds(options: RewriteOptions, properties: Mapping[str, str], *, everything: bool = False) -> Thresholds:
    """Return the thresholds. Raises ContradictoryThresholdsError if the planner would refuse them."""
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
    """Return the thresholds as options of Iceberg's planner."""
    options = {
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
        options["delete-file-threshold"] = rules.delete_files
    return {key: str(value) for key, value in options.items()}


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    text = properties.get(key, str(otherwise)).strip()
    number = counted(text)
    if not number:
        raise ContradictoryThresholdsError(f"the table's property {key} is {text[:40]!r}, and no number of bytes")
    return number
