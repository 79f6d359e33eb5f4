"""The pages are consistent: links and anchors, the index, the glossary, and the words that are not used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import site
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.services import SERVICES

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


def test_the_map_names_modules_that_are_there() -> None:
    """A row of a room gives the stems of modules and packages, all others give the ends of paths."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "lakewarden"
    paths = [f"/{path.relative_to(package)}" for path in package.rglob("*") if "__pycache__" not in path.parts]
    there = {Path(path).stem for path in paths}
    rooms = re.findall(r"^\| [^|]+\| ([^|]+) \|", text.partition("## Rooms")[2].partition("## Where")[0], re.MULTILINE)
    in_rooms = {name for row in rooms for name in re.findall(r"`([a-z_]+)/?`", row)}
    files = set(re.findall(r"`([a-z_/<>]+\.py)`", text)) - {"docs/client.py"}
    gone = [file for file in files if not _ends_one(file, paths)]

    assert (sorted(in_rooms - there), sorted(gone)) == ([], [])
    assert len(in_rooms) > 100
    assert len(text.splitlines()) <= 150


def _ends_one(file: str, paths: list[str]) -> bool:
    pattern = re.escape(f"/{file}").replace("<format>", "[a-z]+")
    return any(re.search(f"{pattern}$", path) for path in paths)


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


# The site of the documentation has every page, and its links lead where those of the repository lead.


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


# The page of dangers is a table that can be read: each row has a rule and one file with its tests.


DANGERS = (DOCS / "safety.md").read_text(encoding="utf-8")
ROWS = [line for line in DANGERS.splitlines() if re.match(r"\| (?!what happens)", line)]
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
    assert len(DANGERS.splitlines()) <= 150
    assert len(DANGERS.split()) <= 4500


def test_no_page_for_users_names_a_single_test() -> None:
    """Tests are renamed, and a reader cannot act on a name."""
    named = [(page, name) for page in FOR_USERS for name in re.findall(r"\btest_\w+\b(?!\.py)", _text(page))]
    assert named == []


def _text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


# The page of the services has a line for each service of each format, and says of each whether it deletes data.


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
