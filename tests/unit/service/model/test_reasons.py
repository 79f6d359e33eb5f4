"""Each sentence that says why a service does not run has a stable code, and the page has each code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

import lakewarden
from docs.reasons import PAGE, page
from lakewarden.planners.model.decision import NOTHING_TO_DO
from lakewarden.planners.model.table import Mode
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.settings import Configuration
from lakewarden.service.model.reasons import BLOCKS, CATALOGUE, CODES, NOT_APPLICABLE, WAITS
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent
_MADE = {"Blocked": BLOCKS, "Blocker": BLOCKS, "NotDue": WAITS}


def _calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Yield each place that makes a block, a blocker or a wait."""
    for file in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MADE:
                yield f"{file.relative_to(_ROOT)}:{node.lineno}", node, node.func.id


def _code(call: ast.Call) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == "code"), None)


def _constants() -> Iterator[tuple[str, str]]:
    """Yield each text that is the code of a block, a blocker or a wait, with its place."""
    for place, call, kind in _calls():
        code = _code(call)
        if isinstance(code, ast.Constant):
            moot = any(one.arg == "moot" for one in call.keywords)
            reasons = NOT_APPLICABLE if moot else _MADE[kind]
            assert code.value in {one.code for one in reasons}, place
            yield place, str(code.value)


def test_each_code_that_the_package_makes_is_in_the_table() -> None:
    """A new code needs its meaning and its cure."""
    assert len(list(_constants())) > 90


def test_each_block_names_its_code() -> None:
    """It never becomes `other`. A wait without a code has nothing to do."""
    assert [place for place, call, kind in _calls() if kind != "NotDue" and _code(call) is None] == []


def test_each_block_of_the_table_is_made_somewhere() -> None:
    """No entry is left over from a sentence that is gone."""
    passed = {"metastore_away", "settings_refused"}  # by the function that makes the blocker
    assert {one.code for one in (*BLOCKS, *WAITS)} - {code for _, code in _constants()} - {NOTHING_TO_DO} <= passed


def test_the_page_has_each_code_with_its_meaning_and_cure() -> None:
    """`python -m docs.reasons` writes it. It is not edited."""
    assert PAGE.read_text(encoding="utf-8") == page()
    assert all(f"`{one.code}`" in page() and one.meaning in page() for one in CATALOGUE)
    assert all(one.cure in page() for one in BLOCKS)


def test_codes_are_words_and_each_is_there_once() -> None:
    """They are labels of metrics and parts of addresses."""
    assert len(CODES) == len(set(CODES))
    assert all(code.replace("_", "").isalpha() and code.islower() for code in CODES)


def _keys(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the names of all settings in a type of settings, however deep."""
    if kind in seen:
        return
    seen.add(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield name
            yield from _keys(field.annotation, seen)
    for inner in get_args(kind):
        yield from _keys(inner, seen)


def test_every_key_that_a_cure_names_exists() -> None:
    """An operator who follows a cure writes no key that the configuration refuses."""
    seen: set[Any] = set()
    known = {*_keys(Configuration, seen), *(mode.value for mode in Mode)}
    for one in FORMATS.values():
        for options in (one.table_options, *one.services.values()):
            known |= set(_keys(options, seen))
    named = [
        (reason.code, key)
        for reason in CATALOGUE
        for key in re.findall(r"`([a-z_.<>]+)(?::[^`]*)?`", reason.cure or "")
    ]

    assert len(named) > 10
    assert [one for one in named if one[1].rpartition(".")[2] not in known] == []
