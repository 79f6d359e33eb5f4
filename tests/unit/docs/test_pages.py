"""The pages are consistent: links and anchors, the index, the glossary, and the words that are not used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    ROOT / "helm" / "lakewarden" / "README.md",
]


def _prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def _links(page: Path) -> list[str]:
    """Return the links of a page that do not lead out of the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", _prose(page))
    return [link for link in found if not re.match(r"\w+://", link)]


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_link_leads_to_a_page_and_an_anchor(page: Path) -> None:
    """If a page moves or a heading changes, its links must change."""
    broken = []
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


_CODE = ("lakewarden", "deploy", "helm", "live", "faults", "bench", "fuzz", "tools")


def test_every_page_that_the_code_names_is_there() -> None:
    """A message leads its reader to a page, and an alert to a section."""
    files = [file for folder in _CODE for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".yaml", ".sh")]
    named = {
        (str(file.relative_to(ROOT)), page, anchor)
        for file in [*files, ROOT / "dev", ROOT / "config.example.yaml"]
        for page, anchor in re.findall(r"\bdocs/(\w+\.md)(?:#([a-z0-9-]+))?", file.read_text(encoding="utf-8"))
    }
    pages = {page.name: _anchors(page) for page in DOCS.glob("*.md")}

    assert len(named) > 50
    assert sorted(one for one in named if one[1] not in pages or (one[2] and one[2] not in pages[one[1]])) == []


def test_the_index_has_every_page() -> None:
    """A page outside the index would not be found."""
    linked = {link.partition("#")[0] for link in _links(DOCS / "README.md")}
    assert linked >= {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_the_readme_leads_to_the_index_and_the_glossary() -> None:
    """All other pages are found from there."""
    assert {"docs/README.md", "docs/glossary.md"} <= {link.partition("#")[0] for link in _links(ROOT / "README.md")}


def test_every_word_of_the_glossary_stands_once() -> None:
    """A word with two meanings is two words."""
    rows = re.findall(r"^\| (\*\*.+\*\*) \|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row)]

    assert len(words) > 40
    assert sorted(set(words)) == sorted(words)


NO_NOUNS = ("whoever", "whomever", "somebody", "someone", "anybody", "everybody", "nobody", "of which")
NO_WORDS_OF_THE_FIELD = (
    "tenure",
    "attendant",
    "attended",
    "inbox",
    "standings",
    "wish",
    "troubles?",
    "forsak",
    "repertoire",
    "caretaker",
)
_HELD = [page for page in PAGES if page.name not in ("CHANGELOG.md", "rest.md", "metrics.md")]


@pytest.mark.parametrize("page", _HELD, ids=_id)
def test_no_page_has_a_word_that_the_rules_of_prose_exclude(page: Path) -> None:
    """CONTRIBUTING.md has the rules, and old sentences as its examples. Names that the code defines are not checked
    here.
    """
    text = re.sub(r"`[^`]*`|\"[^\"]*\"", "", re.sub(r"^    .*$", "", _prose(page), flags=re.MULTILINE))
    if page.name == "CONTRIBUTING.md":
        text = text[: text.index("## Prose")] + text[text.index("## A new setting") :]
    found = re.findall(rf"(?i)\b(?:{'|'.join(NO_NOUNS + NO_WORDS_OF_THE_FIELD)})\b", text)
    assert found == []
