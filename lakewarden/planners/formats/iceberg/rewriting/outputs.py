"""The sizes of the new files of a group, by the rules of `SizeBasedFileRewritePlanner` of Iceberg 1.11.0. Pure.

A run passes these numbers to Iceberg's rewriter. tests/integration/iceberg/test_prediction.py compares them with those
of the planner.
"""

from __future__ import annotations

from lakewarden.planners.formats.iceberg.rewriting.thresholds import Thresholds

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
