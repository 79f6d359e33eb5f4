"""The pages of promises name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [(ROOT / "docs" / name).read_text() for name in ("safety.md", "failures.md", "security.md")]
NAMED = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page)}


def test_each_rule_names_tests_that_exist() -> None:
    """If a test is renamed or removed, the page must change."""
    modules = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tests = {name for text in modules for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert len(NAMED) > 500
    assert sorted(NAMED - tests) == []
