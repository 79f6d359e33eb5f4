"""What an operator reads of an exception of the JVM."""

from __future__ import annotations

import pytest

from lakewarden.executors.programs.java_errors import for_people


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (["java.io.IOException: it is full\n\tat a.b.C"], "IOException: it is full"),
        (
            ["org.apache.spark.SparkException: a job failed\n", "java.io.EOFException: end"],
            "SparkException: a job failed <- EOFException: end",
        ),
        (["java.lang.NullPointerException"], "NullPointerException"),
        (
            ["org.apache.spark.sql.catalyst.parser.ParseException: \n[PARSE_SYNTAX_ERROR] at 'uniontype'\n\n== SQL"],
            "ParseException: [PARSE_SYNTAX_ERROR] at 'uniontype'",
        ),
    ],
)
def test_an_exception_is_told_in_one_line_with_its_message(causes: list[str], told: str) -> None:
    """Also if its message begins on a line of its own."""
    assert for_people(causes) == told
