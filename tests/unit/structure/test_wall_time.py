"""A test says something about the code, and not about the machine: none has an upper bound on wall time.

A hang detector is no such bound. It compares the clock itself with a deadline. The speed of something is a figure of
`./dev bench`. An exception says its reason on its line, after `# wall time:`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[2]
_CLOCKS = {"time", "monotonic", "perf_counter"}


def _reads_the_clock(node: ast.expr) -> bool:
    """Whether it is `time.monotonic()` or the like. Clocks of the product are often moved by hand, but for one."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name)) if name in _CLOCKS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="SystemClock")), attr=_)):
            return True
    return False


def _measures(node: ast.expr, measured: set[str]) -> bool:
    """Whether it is a difference of two readings of the clock, or a name of one."""
    match node:
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            return _reads_the_clock(left) or _reads_the_clock(right)
        case ast.Name(id=name):
            return name in measured
    return False


def _bounded_above(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a comparison, or one of several, asks to be less than something else."""
    match test:
        case ast.Compare(left=first, ops=ops, comparators=others):
            for less, op, more in zip((first, *others), ops, others, strict=False):
                if isinstance(op, ast.Lt | ast.LtE):
                    yield less
                elif isinstance(op, ast.Gt | ast.GtE):
                    yield more
        case ast.BoolOp(values=values):
            for value in values:
                yield from _bounded_above(value)


def _bounds(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of assertions that something took less than so many seconds."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = list(ast.walk(function))
        measured = {
            target.id
            for node in inside
            if isinstance(node, ast.Assign) and _measures(node.value, set())
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in inside:
            if isinstance(node, ast.Assert) and any(_measures(one, measured) for one in _bounded_above(node.test)):
                yield node.lineno


def test_no_test_bounds_the_time_that_something_takes() -> None:
    """It would fail on a busy machine, and say nothing about the code."""
    found = []
    for file in sorted(_TESTS.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(f"{clock}() - " in text for clock in _CLOCKS):
            continue
        lines = text.splitlines()
        found += [
            f"{file.relative_to(_TESTS)}:{line}"
            for line in _bounds(ast.parse(text))
            if "# wall time: " not in lines[line - 1]
        ]
    assert found == []


def test_a_bound_is_found() -> None:
    """This shows that the test above can fail, and what it takes for a hang detector."""
    bounded = ast.parse(
        "def test_one():\n"
        "    begun = time.monotonic()\n"
        "    took = time.monotonic() - begun\n"
        "    assert took < 5\n"
        "    assert 1 <= time.monotonic() - begun <= 8\n"
        "    assert quick or 3 > took\n"
        "    assert took > 1\n"
        "    assert time.monotonic() < deadline\n"
    )
    assert list(_bounds(bounded)) == [4, 5, 6]
