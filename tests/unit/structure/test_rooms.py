"""The order of the package as far as import-linter does not prove it: no circle of files, and no folder with too many
modules.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lakewarden
from lakewarden.planners.model.instant import Service
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


# A unit test has the same path as the code that it tests, so that each is found by the other.


_UNIT = Path(__file__).parents[1]
_CHECKOUT = _UNIT.parents[1]
_OF_THE_WHOLE = {"structure"}
"""Folders with tests of the package's own order."""


def _tested_by(folder: Path) -> list[Path]:
    """Return the possible places of the code that a folder of tests is about: in the package, or beside it."""
    path = folder.relative_to(_UNIT)
    places = [_CHECKOUT / "lakewarden" / path, _CHECKOUT / path]
    return [*places, *(place.with_suffix(".py") for place in places)]


def test_the_unit_tests_mirror_the_package() -> None:
    """A folder of tests has the name of a room or a module of the package, or of a folder or a script beside it."""
    folders = {file.parent for file in _UNIT.rglob("test_*.py")}
    assert len(folders) > 40
    astray = {
        str(folder.relative_to(_UNIT))
        for folder in folders
        if folder.name not in _OF_THE_WHOLE and not any(place.exists() for place in _tested_by(folder))
    }
    assert not astray


def test_no_unit_test_lies_beside_the_rooms() -> None:
    """Each test is in a folder."""
    assert not [*_UNIT.glob("test_*.py")]


# One name, one class: a reader who meets a name need not ask which of several classes it is.


_FORMATS = {folder.name for folder in (_ROOT / "planners" / "formats").iterdir() if (folder / "__init__.py").exists()}

_OF_EACH_FORMAT = {
    "CorruptMetadataError": "a file of a table's metadata that is not whole",
    "HiveCatalog": "`type: hive` in a configuration, with the settings that the tables of a format need",
    "JdbcCatalog": "`type: jdbc` in a configuration, with the settings that the tables of a format need",
    "Holdings": "the totals of what a snapshot holds",
    "IncrementalReader": "an entry of `incremental_readers` in the options of a table",
    "Memo": "what a format remembers of a table from one observation to the next",
    "NeedFacts": "the facts of an observation that decide what the services need",
    "Needs": "what the view of a table says of its services",
    "OpenTable": "a table as the programs of a format have opened it",
    "RewriteSteps": "the steps that the rewriting programs of a format share",
    "RunObservations": "the observations of one run of its table",
    "Snapshot": "a snapshot, in a format that has snapshots",
    "VanishedError": "a file that a table names, and that was deleted meanwhile",
}
"""The names that mean the same in each format, with that meaning. So do the program, the steps and the options of a
table service. docs/glossary.md says that there is one of each in a format.
"""


_GENERATED = Path("client", "bodies.py")
"""The bodies of the client are generated from the bodies of the API, which they mean. Each has the same name there."""


def _title(service: Service) -> str:
    return "".join(word.title() for word in str(service).split("_"))


_OF_A_SERVICE = {f"{_title(service)}{kind}" for service in Service for kind in ("", "Steps", "Options")}


def _defined() -> Mapping[str, list[Path]]:
    """Return the public classes of the product, each with the modules that define one of its name."""
    found = defaultdict(list)
    for file in sorted({*_ROOT.rglob("*.py")} - {_ROOT / _GENERATED}):
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(file.relative_to(_ROOT))
    return found


def _format_of(module: Path) -> str | None:
    return next((part for part in module.parts if part in _FORMATS), None)


def _shared() -> Mapping[str, list[Path]]:
    return {name: modules for name, modules in _defined().items() if len(modules) > 1}


def test_no_two_modules_define_a_class_of_the_same_name() -> None:
    """Except the classes that every format has in its own folders, by the same name and with the same meaning."""
    assert len(_defined()) > 500
    parallel = _OF_A_SERVICE | _OF_EACH_FORMAT.keys()
    twice = {}
    for name, modules in _shared().items():
        formats = [_format_of(module) for module in modules]
        if name not in parallel or None in formats or len(set(formats)) < len(formats):
            twice[name] = [str(module) for module in modules]
    assert not twice


def test_each_parallel_name_is_needed() -> None:
    """A name that one format has is no exception."""
    assert _OF_EACH_FORMAT.keys() <= _shared().keys()


def test_a_module_that_is_started_is_read_to_its_end_before_it_begins() -> None:
    """What is defined after the guard of `__main__` is missing in a process that never returns from it (run)."""
    modules = {file: parsed(file).body for file in _modules().values()}
    guarded = {file: body for file, body in modules.items() if any(_is_guard(node) for node in body)}
    assert guarded
    assert [file for file, body in guarded.items() if not _is_guard(body[-1])] == []


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
