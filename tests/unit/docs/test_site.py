"""The site of the documentation has every page, and its links lead where those of the repository lead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import site
from tests.unit.docs.test_pages import DOCS, PAGES, ROOT

SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_site_has_every_page_once() -> None:
    """In the same four sections as the index, and in its order."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = dict.fromkeys(re.findall(r"\]\((\w+\.md)\)", index))
    shown = re.findall(r"^      - (\w+\.md)$", SETTINGS, re.MULTILINE)
    sections = re.findall(r"^  - (\w[\w ]*):$", SETTINGS[SETTINGS.index("nav:\n") :], re.MULTILINE)

    assert (
        sections == re.findall(r"^## (.+)$", index, re.MULTILINE) == ["Tutorials", "How to", "Reference", "Explanation"]
    )
    assert shown == [*linked]
    assert {*shown} == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_a_broken_link_ends_the_build() -> None:
    """And nothing is loaded from another host by a reader of the site."""
    assert "strict: true" in SETTINGS
    assert "font: false" in SETTINGS
    assert re.search(r"links: \{not_found: warn, anchors: warn", SETTINGS)


def test_a_link_out_of_the_folder_leads_to_a_copy() -> None:
    """The site has the folder `docs` alone, and what its pages name is added."""
    text = (
        "[a](../config.example.yaml), [b](hudi.md#locks), [c](../helm/lakewarden/README.md), [d](https://x.example/y)"
    )
    assert site.rewritten(text, DOCS / "page.md", at="page.md") == (
        "[a](repository/config.example.yaml.md), [b](hudi.md#locks), [c](repository/helm/lakewarden/README.md), "
        "[d](https://x.example/y)"
    )
    back = site.rewritten("[a](docs/observe.md), [b](deploy)", ROOT / "README.md", at="repository/README.md")
    assert back == "[a](../observe.md), [b](deploy.md)"


def test_a_list_below_a_line_of_text_is_a_list() -> None:
    """MkDocs would show it as the end of the sentence. Blocks of code stay as they are."""
    assert site.spaced("It does:\n- a,\n  more\n- b\n") == "It does:\n\n- a,\n  more\n- b\n"
    assert site.spaced("```\nx:\n- a\n```\n") == "```\nx:\n- a\n```\n"


@pytest.mark.parametrize("page", [one for one in PAGES if one.parent == DOCS], ids=lambda page: page.name)
def test_what_a_page_names_outside_can_be_shown(page: Path) -> None:
    """A page, a text, or the names of a folder."""
    for target in site.outside(page):
        assert target.is_dir() or target.read_text(encoding="utf-8")
