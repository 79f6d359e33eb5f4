"""The rooms of the package, as far as import-linter does not prove them: no circle of files, and no folder too full."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lakewarden

_ROOT = Path(lakewarden.__file__).parent

_FULL = 16
"""A folder with more modules is two folders."""


def _modules() -> Mapping[str, Path]:
    found = {}
    for file in _ROOT.rglob("*.py"):
        parts = file.relative_to(_ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _imported(file: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return what a module imports of ours, for its types and within functions, too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                whole if (whole := f"{node.module}.{alias.name}") in modules else node.module for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(modules)


def test_no_file_leads_back_to_itself() -> None:
    """Each file can be read after those that it imports: there is no circle of files anywhere."""
    modules = _modules()
    graph = {name: _imported(file, modules) - {name} for name, file in modules.items()}
    assert len(graph) > 400
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        raise AssertionError(" -> ".join(circle.args[1])) from None


def test_no_room_is_too_full_to_find_a_file_by_its_name() -> None:
    """A folder has about 15 modules."""
    full = {
        str(folder.relative_to(_ROOT))
        for folder in (_ROOT, *(path for path in _ROOT.rglob("*") if path.is_dir()))
        if sum(file.name != "__init__.py" for file in folder.glob("*.py")) > _FULL
    }
    assert not full
