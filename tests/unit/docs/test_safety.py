"""The page of dangers is a table that can be read: each row has a rule and one file with its tests."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "safety.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| (?!what happens)", line)]
FOR_USERS = (
    "safety",
    "hudi",
    "iceberg",
    "paimon",
    "directories",
    "limits",
    "runbook",
    "security",
    "writers",
    "object_stores",
    "ownership",
)


def test_each_row_has_a_rule_and_one_file_with_its_tests() -> None:
    """If a file of tests is moved or removed, its row must change."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("|"))] for row in ROWS]
    assert len(ROWS) > 80
    assert [row for row in cells if len(row) != 4 or not all(row)] == []
    linked = [re.fullmatch(r"\[tests\]\((\.\./tests/[\w/]+\.py)\)", row[-1]) for row in cells]
    assert [row for row, link in zip(cells, linked, strict=True) if link is None] == []
    assert [
        link[1] for link in linked if link and "def test_" not in (DOCS / link[1]).read_text(encoding="utf-8")
    ] == []


def test_the_page_can_be_read_in_one_sitting() -> None:
    """A story belongs to the page of its format."""
    assert len(TEXT.splitlines()) <= 150
    assert len(TEXT.split()) <= 4500


def test_no_page_for_users_names_a_single_test() -> None:
    """Tests are renamed, and a reader cannot act on a name."""
    named = [(page, name) for page in FOR_USERS for name in re.findall(r"\btest_\w+\b(?!\.py)", _text(page))]
    assert named == []


def _text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")
