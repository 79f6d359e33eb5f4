"""The steps of a run are an enum everywhere. A misspelled text would not be noticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lakewarden
from lakewarden.planners.model.instant import Step
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent
_STEPS = frozenset(Step)


def _named_step(node: ast.expr) -> bool:
    """Whether an expression is `step`, or has it in a tuple, as `match service, step` does."""
    if isinstance(node, ast.Tuple):
        return any(map(_named_step, node.elts))
    return (isinstance(node, ast.Name) and node.id == "step") or (
        isinstance(node, ast.Attribute) and node.attr == "step"
    )


def _texts(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in _STEPS for one in ast.walk(node))


def _untyped(tree: ast.AST) -> Iterator[int]:
    """Yield the lines on which a step is a text: annotated as one, passed as one, or compared with one."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.arg(arg="step", annotation=ast.expr() as said)
                | ast.AnnAssign(target=ast.Name(id="step"), annotation=said)
            ) if any(isinstance(one, ast.Name) and one.id == "str" for one in ast.walk(said)):
                yield said.lineno
            case ast.keyword(arg="step", value=ast.Constant(value=str())):
                yield node.value.lineno
            case ast.Compare(left=left, comparators=others) if any(map(_named_step, (left, *others))) and _texts(node):
                yield node.lineno
            case ast.Match(subject=subject, cases=cases) if _named_step(subject) and any(
                _texts(case.pattern) for case in cases
            ):
                yield node.lineno


def test_no_step_is_a_text() -> None:
    """Every step in the product is a `Step`."""
    files = list(_ROOT.rglob("*.py"))
    assert len(files) > 400
    found = [f"{file.relative_to(_ROOT)}:{line}" for file in files for line in _untyped(parsed(file))]
    assert found == []


def test_a_step_that_is_a_text_is_found() -> None:
    """The rule finds each way of using a text as a step."""
    ways = (
        "def f(step: str) -> None: ...",
        "class A:\n    step: str | None",
        "f(step='plan')",
        "x = (service, step) == (1, 'comit', 'commit')",
        "x = run.step != 'execute'",
        "match service, step:\n    case 1, 'plan':\n        pass",
    )
    assert [len(list(_untyped(ast.parse(way)))) for way in ways] == [1] * len(ways)
