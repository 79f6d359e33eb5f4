"""How many parameters a function may have, and how long it and a module may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lakewarden
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent

_MOST_PARAMETERS = 10
"""This is `wiring/daemon.compose`. A function that needs more takes a group."""

_MOST_LINES = 90
"""This is `wiring/serving.serve`, which orders the start and the end of every part."""

_MOST_LINES_OF_A_MODULE = 300
"""A longer module is usually two thoughts, each with a name of its own."""

_ONE_THOUGHT = {
    "client/bodies.py": "generated from the OpenAPI of the daemon",
    "client/operations.py": "generated from the OpenAPI of the daemon",
    "executors/contract.py": "the contract of programs and pools, which both sides read together",
    "executors/pool/session_pool.py": "one lock guards the workers of a pool from their start to their end",
    "executors/programs/hudi/client/write_client.py": "each method is one call of Hudi's own write client",
    "executors/programs/hudi/clustering.py": "the three steps of one service, and what each refuses",
    "planners/formats/iceberg/backlog/backlog.py": "one function for each service, over the same facts",
    "planners/ports.py": "what a format and a storage must be able to do",
    "planners/storage/objects.py": "one storage, on the client of each kind of store",
    "planners/storage/settings.py": "one class for each kind of store",
    "planners/triggers.py": "one class for each trigger",
    "service/config/assembly.py": "one pass over a configuration, which collects every problem",
    "service/control/commands.py": "every act of an operator or a writer, read together",
    "service/http/schemas.py": "one class for each body of the API",
    "service/model/reasons.py": "one table: every reason with its code, its meaning and its cure",
    "service/state/service_states.py": "one row for each service, and everything that changes it",
    "service/store/port.py": "the contract of the store, which every store fulfils",
    "service/store/sql/schema.py": "every table of the store, with its indexes",
}
"""The modules that are longer, each with the reason why it is one thought."""


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file.relative_to(_ROOT)}:{node.lineno}:{node.name}", node


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    asked = function.args
    names = [one.arg for one in (*asked.posonlyargs, *asked.args, *asked.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in names)


def test_no_function_asks_for_more_than_a_reader_can_hold() -> None:
    """Values that belong together are passed together: a room of the service is one frozen group for the rooms above
    it.
    """
    found = {name: _parameters(function) for name, function in _functions()}
    assert len(found) > 2000
    assert {name: count for name, count in found.items() if count > _MOST_PARAMETERS} == {}
    assert _MOST_PARAMETERS in found.values()


def test_no_function_is_longer_than_the_longest_of_today() -> None:
    """A function fits on a screen. Exceptions are known and must not grow."""
    found = {name: (function.end_lineno or 0) - function.lineno + 1 for name, function in _functions()}
    assert {name: lines for name, lines in found.items() if lines > _MOST_LINES} == {}
    assert max(found.values()) > _MOST_LINES - 10


def test_no_module_is_longer_than_a_thought_needs() -> None:
    """A feature is found by the name of its module. The longer modules are known, each with its reason."""
    lines = {str(file.relative_to(_ROOT)): file.read_text(encoding="utf-8").count("\n") for file in _ROOT.rglob("*.py")}
    assert len(lines) > 500
    assert {name for name, count in lines.items() if count > _MOST_LINES_OF_A_MODULE} == _ONE_THOUGHT.keys()
