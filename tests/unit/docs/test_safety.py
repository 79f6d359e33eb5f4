"""The pages of promises name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [(ROOT / "docs" / name).read_text() for name in ("safety.md", "failures.md", "security.md", "configuration.md")]
NAMED = sorted({name for page in PAGES for name in re.findall(r"`(test_\w+)`", page)})


@pytest.fixture(scope="module")
def tests() -> str:
    """Return the text of every test module."""
    return "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("name", NAMED)
def test_each_rule_names_tests_that_exist(name: str, tests: str) -> None:
    """If a test is renamed or removed, the page must change."""
    assert re.search(rf"^def {name}\(", tests, re.MULTILINE)
