"""A hook of MkDocs: the pages are written for the repository, and the site shows them as the repository does.

In the repository every link leads to a file, and the site has the folder `docs` alone. So what the pages name outside
is copied. In the repository a list may follow a line of text, and MkDocs wants an empty line between the two. The
reference of the routes is made from the OpenAPI when the site is built, and stands below the page of the API.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
API = "api.md"
COPIES = "repository"
"""The folder of the site with what the pages name outside of `docs`."""

_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")


def outside(page: Path) -> list[Path]:
    """Return the files and folders outside of `docs` to which a page leads."""
    found = {_target(page, link[2]) for link in _LINK.finditer(page.read_text(encoding="utf-8"))}
    return sorted(one for one in found if one.exists() and not one.is_relative_to(ROOT / "docs"))


def rewritten(text: str, page: Path, *, at: str) -> str:
    """Return the text of a page with the links that it has in the site. `at` is its place there."""

    def link(found: re.Match[str]) -> str:
        target = _target(page, found[2])
        if not target.exists():
            return found[0]
        place = posixpath.relpath(_place(target), posixpath.dirname(at) or ".")
        return f"{found[1]}{place}{found[3] or ''}{found[4]}"

    return _LINK.sub(link, text)


def spaced(text: str) -> str:
    """Return the text of a page with an empty line before each list that follows a line of text."""
    lines = list[str]()
    fenced = False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        fenced ^= line.startswith("```")
        if not fenced and _ITEM.match(line) and before and not before[0].isspace() and not _ITEM.match(before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    """Add what the pages name outside of `docs`, and what those pages name."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only the environment of the site has it

    waiting = sorted({target for page in (ROOT / "docs").glob("*.md") for target in outside(page)})
    known = set(waiting)
    while waiting:
        source = waiting.pop()
        if source.suffix == ".md":
            new = {*outside(source)} - known
            known |= new
            waiting += sorted(new)
        files.append(File.generated(config, _place(source), content=_content(source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_more: Any) -> str:
    """Rewrite the links of a page."""
    source = page.file.src_uri
    if source.startswith(f"{COPIES}/"):
        return spaced(markdown)
    reference = _reference() if source == API else ""
    return spaced(rewritten(f"{markdown}{reference}", ROOT / "docs" / source, at=source))


def _reference() -> str:
    sys.path.insert(0, str(ROOT))  # MkDocs loads this file alone
    from docs.rest import text  # noqa: PLC0415 - see above

    return f"\n\n{text()}"


def _target(page: Path, link: str) -> Path:
    return (page.parent / link).resolve()


def _place(target: Path) -> str:
    """Return the place of a file in the site. Files that are no pages, and folders, are shown as pages."""
    docs = ROOT / "docs"
    if target.is_relative_to(docs):
        return target.relative_to(docs).as_posix()
    name = target.relative_to(ROOT).as_posix()
    return f"{COPIES}/{name}" if target.suffix == ".md" else f"{COPIES}/{name}.md"


def _content(source: Path) -> str:
    name = source.relative_to(ROOT).as_posix()
    if source.is_dir():
        names = "\n".join(f"    {path.relative_to(source)}" for path in sorted(source.rglob("*")) if path.is_file())
        return f"# {name}\n\nThe folder of the repository has these files:\n\n{names}\n"
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        return rewritten(text, source, at=_place(source))
    return f"# {name}\n\n````{source.suffix[1:]}\n{text}\n````\n"
