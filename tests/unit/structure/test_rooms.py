"""The order of the package as far as import-linter does not prove it: no circle of files, and no folder with too many
modules.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lakewarden
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent

_ROOMS = (
    _ROOT,
    *(_ROOT.parent / name for name in ("bench", "faults", "fuzz", "live")),
    _ROOT.parent / "tests" / "support",
)
"""The package, the programs beside it that try it, and what tests share."""

_FULL = 15
"""A folder with more modules is two folders."""


def _modules() -> Mapping[str, Path]:
    found = {}
    for file in (file for room in _ROOMS for file in room.rglob("*.py")):
        parts = file.relative_to(_ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _imported(file: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules of ours that a module imports, including those for its types and within functions."""
    found = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                whole if (whole := f"{node.module}.{alias.name}") in modules else node.module for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(modules)


def test_no_file_leads_back_to_itself() -> None:
    """Each file can be read after the files that it imports. There is no circle anywhere."""
    modules = _modules()
    graph = {name: _imported(file, modules) - {name} for name, file in modules.items()}
    assert len(graph) > 400
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        raise AssertionError(" -> ".join(circle.args[1])) from None


def test_no_room_is_too_full_to_find_a_file_by_its_name() -> None:
    """A folder has at most 15 modules: in the package, in the programs that try it, and in what tests share."""
    folders = [folder for room in _ROOMS for folder in (room, *(path for path in room.rglob("*") if path.is_dir()))]
    assert len(folders) > 100
    full = {
        str(folder.relative_to(_ROOT.parent))
        for folder in folders
        if sum(file.name != "__init__.py" for file in folder.glob("*.py")) > _FULL
    }
    assert not full
