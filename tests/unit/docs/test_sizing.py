"""The prices of requests are what the numbers of requests on the same page make."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "sizing.md"
_TABLES, _DAYS = 800, 30
_LIST, _HEAD, _GET = 0.005, 0.0004, 0.001
"""The prices of 1,000 requests that the page takes as an example."""


def _rows(heading: str) -> dict[str, list[float]]:
    """Return the numbers of each line of a table of the page, by the interval of polls."""
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()[2:]]
    return {name.split(" (")[0]: [float(one.replace(",", "")) for one in rest] for name, *rest in lines}


def test_the_prices_follow_from_the_requests_of_a_day() -> None:
    """A page that is changed in one place is changed in both."""
    requests = _rows("| `poll` | polls |")
    prices = _rows("| `poll` | Hudi on S3: LIST and HEAD |")
    assert set(requests) == set(prices)
    for name, (polls, listed, asked, got) in requests.items():
        assert listed == asked == got == polls
        hudi = _TABLES * _DAYS * (listed * _LIST + asked * _HEAD) / 1000
        catalog = _TABLES * _DAYS * got * _GET / 1000
        assert prices[name] == [round(hudi, 2), round(catalog, 2), round(_TABLES * got / 86_400, 2)]


def test_the_example_prices_are_those_that_the_page_names() -> None:
    """A reader replaces them by those of the store."""
    text = PAGE.read_text(encoding="utf-8")
    assert re.search(f"prices of {_LIST} for 1,000 LIST, {_HEAD} for 1,000 HEAD and {_GET} for 1,000 GET", text)
