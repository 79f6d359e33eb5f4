"""What a replica says of its tables."""

from __future__ import annotations

from lakewarden.planners.model.table import TableId
from lakewarden.service.control.membership import MOST_NAMED, named


def test_a_line_of_the_log_names_a_hundred_tables_at_most() -> None:
    """The start of a daemon with 10,000 tables writes no line of a hundred kilobytes."""
    few = [TableId("b"), TableId("a")]
    many = [TableId(f"t{number:05}") for number in range(10_000)]

    assert named(few) == ["a", "b"]
    assert named(many)[-2:] == [f"t{MOST_NAMED - 1:05}", f"and {10_000 - MOST_NAMED} more"]
