"""Each sentence that says why a service does not run has a stable code, and the page has each code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import lakewarden
from docs.reasons import PAGE, page
from lakewarden.planners.model.decision import Blocked, DoesNotApply, Due, NotDue, WouldRun
from lakewarden.planners.model.table import Mode
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.settings import Configuration
from lakewarden.service.model.reasons import BLOCKS, CATALOGUE, CODES, OTHER, code_for, code_of
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent
_BUILT = {"Blocked": "Blocked", "Blocker": "Blocked", "NotDue": "NotDue", "DoesNotApply": "DoesNotApply"}
_TEXT = st.text(max_size=80)


def _text(node: ast.expr) -> str | None:
    """Return a sentence as it is written, with `{}` for each value. None if it was made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in parts)
        case _:
            return None


@cache
def sentences() -> Sequence[tuple[str, str, str]]:
    """Return each sentence of the package: its file, the decision that it becomes, and the sentence."""
    return tuple(_sentences())


def _sentences() -> Iterator[tuple[str, str, str]]:
    for file in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BUILT:
                reason = next((one.value for one in node.keywords if one.arg == "reason"), None)
                said = None if reason is None else _text(reason)
                if said is not None:
                    yield str(file.relative_to(_ROOT)), _BUILT[node.func.id], said


def test_each_sentence_of_the_package_has_a_code_of_its_own() -> None:
    """A new sentence needs an entry in the catalogue, or words of one. It never becomes `other`."""
    found = list(sentences())
    assert len(found) > 60
    assert not [one for one in found if code_for(one[1], one[2]) == OTHER.code]


def test_each_block_of_the_catalogue_is_the_code_of_a_sentence() -> None:
    """No entry is left over from a sentence that is gone. One is made where its figures are (`rules/budget.py`)."""
    used = {code_for(decision, said) for _, decision, said in sentences() if decision == "Blocked"}
    assert {one.code for one in BLOCKS} - used <= {"approval_needed"}


def test_the_page_has_each_code_with_its_meaning_and_cure() -> None:
    """`python -m docs.reasons` writes it. It is not edited."""
    assert PAGE.read_text(encoding="utf-8") == page()
    assert all(f"`{one.code}`" in page() and one.meaning in page() for one in CATALOGUE)
    assert all(one.cure in page() for one in BLOCKS)


def test_codes_are_words_and_each_is_there_once() -> None:
    """They are labels of metrics and parts of addresses."""
    assert len(CODES) == len(set(CODES))
    assert all(code.replace("_", "").isalpha() and code.islower() for code in CODES)


@given(st.sampled_from([Due, NotDue, WouldRun, Blocked, DoesNotApply]), _TEXT)
def test_whatever_a_sentence_says_it_has_a_known_code(kind: type[Due], said: str) -> None:
    """Sentences hold names of tables and messages of stores."""
    assert code_of(kind(reason=said)) in CODES


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("the table is only observed", "observed_only"),
        ("paused: for the night", "paused"),
        ("in quarantine: no lock is named", "quarantined"),
        ("would delete 1,000 files, more than the budget of 10", "approval_needed"),
        ("the table's metadata cannot be read whole: an index is damaged", "metadata_damaged"),
        ("the table cannot be observed: a file is damaged", "not_observed"),
        ("no lock is named that Lakewarden and the table's writers share", "lock_missing"),
    ],
)
def test_the_beginning_of_a_sentence_counts_before_its_rest(said: str, code: str) -> None:
    """The rest is a name or the message of another reason."""
    assert code_for("Blocked", said) == code


def test_the_wait_of_a_reload_is_not_taken_for_a_trigger() -> None:
    """An operator who has changed a policy sees that it is not in force yet, and not that its trigger does not fire."""
    waits = [said for _, kind, said in sentences() if kind == "NotDue" and "new settings" in said]
    assert [code_for("NotDue", one) for one in waits] == ["new_settings_wait"]


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
