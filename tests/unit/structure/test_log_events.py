"""The events of the log: fixed names for queries, with their facts beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lakewarden

_ROOT = Path(lakewarden.__file__).parent
_LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
_EVENT = re.compile(r"^[a-z0-9_]+$")


def _is_level(node: ast.AST) -> bool:
    """Whether this is `log.info`, or another method of a module's logger."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "log"
        and node.attr in _LEVELS
    )


def _event(call: ast.Call) -> ast.expr | None:
    """Return the expression of the event's name if this call writes a line: `log.info(event)`, `edge(event)`, or a
    method that gets `log.info` and then the event.
    """
    if _is_level(call.func) or (isinstance(call.func, ast.Name) and call.func.id == "edge"):
        return call.args[0] if call.args else None
    following = [after for before, after in zip(call.args, call.args[1:], strict=False) if _is_level(before)]
    return following[0] if following else None


def _modules() -> Iterator[tuple[str, ast.AST]]:
    """Yield the modules that have a logger, or an edge, which logs for them."""
    for file in _ROOT.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name != "edge.py" and ("log = structlog.get_logger(" in text or "import edge" in text):
            yield str(file.relative_to(_ROOT)), ast.parse(text)


def _lines(tree: ast.AST) -> Iterator[tuple[int, object]]:
    """Yield the line and the name of each event; None for a name that is not a literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (event := _event(node)) is not None:
            yield node.lineno, event.value if isinstance(event, ast.Constant) else None


def test_every_event_of_the_log_has_a_name_in_snake_case() -> None:
    """A variable part is a fact, never a part of the name. A sentence could not be counted or searched for."""
    found = [(f"{module}:{line}", event) for module, tree in _modules() for line, event in _lines(tree)]
    assert len(found) > 60
    assert not [place for place, event in found if not isinstance(event, str) or not _EVENT.match(event)]


def test_no_method_of_a_logger_is_kept_under_another_name() -> None:
    """Otherwise the event that is passed to it could be anything."""
    kept = [
        f"{module}:{node.lineno}"
        for module, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.IfExp | ast.Dict)
        and any(_is_level(child) for child in ast.iter_child_nodes(node))
    ]
    assert not kept
