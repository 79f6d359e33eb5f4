"""The page of the services has a line for each service of each format, and says of each whether it deletes data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewarden.planners.registry import FORMATS
from lakewarden.planners.services import SERVICES

PAGE = Path(__file__).parents[3] / "docs" / "services.md"
_HEADINGS = {"hudi": "Hudi", "iceberg": "Iceberg", "paimon": "Paimon", "directory": "Plain directories"}
_DELETES_METADATA_ALONE = {"archive"}
"""Services that count as deleting, and that delete nothing but metadata of the format."""


def _lines(format_name: str) -> dict[str, str]:
    """Return what the page says of deletions, by the service."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {_HEADINGS[format_name]}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|", section, re.MULTILINE)
    return {service: deletes.strip() for service, _, deletes in rows}


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_each_service_of_a_format_has_its_line(format_name: str) -> None:
    """There is none too many, either."""
    assert set(_lines(format_name)) == {service.value for service in FORMATS[format_name].services}


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_the_page_names_each_service_that_deletes_data(format_name: str) -> None:
    """It says what the product goes by when it asks for an approval."""
    said = {service for service, deletes in _lines(format_name).items() if deletes.startswith("yes")}
    served = FORMATS[format_name].services
    assert said == {one.value for one in served if SERVICES[one].deletes} - _DELETES_METADATA_ALONE
