"""One name, one class: a reader who meets a name need not ask which of several classes it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import lakewarden
from lakewarden.planners.model.instant import Service
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent
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
