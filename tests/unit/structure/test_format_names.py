"""A format is a folder in some rooms, and one line in each registry. No other code names a format."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewarden
from lakewarden.planners.registry import FORMATS
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent

_OF_FORMATS = ("planners/formats", "executors/programs", "demo/formats")
"""Rooms in which each format has a folder."""

_REGISTRIES = {
    "planners/formats/layouts.py",
    "planners/registry.py",
    "executors/registry.py",
    "executors/programs/registry.py",
    "demo/registry.py",
}

_ORDINARY = {"directory": r"formats\.directory\b|programs\.directory\b|^DIRECTORY$"}
"""A format whose name is a word of every file system is found by the name of its folder, and of its value."""

_OTHERS = re.compile("|".join((*(name for name in FORMATS if name not in _ORDINARY), "hoodie")), re.IGNORECASE)
_ORDINARY_NAMES = re.compile("|".join(_ORDINARY.values()))


def _named(text: str) -> bool:
    return bool(_OTHERS.search(text) or _ORDINARY_NAMES.search(text))


def _is_of_a_format(path: str) -> bool:
    return any(path.startswith(f"{room}/{name}/") for room in _OF_FORMATS for name in FORMATS)


def _docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of the texts that are statements: docstrings, also those of fields and constants."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the identifiers, imports and texts of a file, each with its line."""
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name
            case ast.ImportFrom(module=module, names=names):
                yield node.lineno, module or ""
                yield from ((node.lineno, f"{one.name} {one.asname or ''}") for one in names)
            case ast.Import(names=names):
                yield from ((node.lineno, f"{one.name} {one.asname or ''}") for one in names)


def _found(tree: ast.AST) -> list[tuple[int, str]]:
    return [(line, text) for line, text in _said(tree) if _named(text)]


def test_only_the_registries_name_a_format() -> None:
    """Outside the formats' own folders only the registries contain the name of a format."""
    files = [(str(file.relative_to(_ROOT)), file) for file in sorted(_ROOT.rglob("*.py"))]
    elsewhere = [(path, file) for path, file in files if not _is_of_a_format(path)]
    assert len(elsewhere) > 200
    named = {path: found for path, file in elsewhere if (found := _found(parsed(file)))}
    assert {path: found for path, found in named.items() if path not in _REGISTRIES} == {}
    assert set(named) == _REGISTRIES


@pytest.mark.parametrize("registry", sorted(_REGISTRIES))
def test_a_format_is_one_line_in_each_registry(registry: str) -> None:
    """Except for imports, a registry contains the name of each format in one line."""
    tree = parsed(_ROOT / registry)
    lines = [
        line for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) for line, _ in _found(node)
    ]
    assert len(set(lines)) <= len(FORMATS)


@pytest.mark.parametrize(
    "code",
    [
        "import hudi",
        "from a.iceberg import b",
        "x = 'on iceberg'",
        "def of_hudi(): ...",
        "f(hudi=1)",
        "a.HUDI",
        "from lakewarden.planners.formats.directory import b",
        "a.DIRECTORY",
    ],
)
def test_a_name_of_a_format_is_found_wherever_it_stands(code: str) -> None:
    """The rule sees imports, names, arguments and texts."""
    assert _found(ast.parse(code))
