"""Which files a rewrite takes: the thresholds of Iceberg's planner, from the options of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.model.errors import PermanentError

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


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    text = properties.get(key, str(otherwise)).strip()
    found = counted(text)
    if not found:
        raise ContradictoryThresholdsError(f"the table's property {key} is {text[:40]!r}, and no number of bytes")
    return found
