"""The words in identifiers and in the names of modules are those of the field. None is of an office or a theatre.

Some rooms are held further: no docstring, comment or message of theirs has a pronoun such as "whoever".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lakewarden
from tests.support.sources import parsed

_ROOT = Path(lakewarden.__file__).parent.parent
_ROOMS = ("lakewarden", "live", "faults", "bench", "fuzz", "deploy", "helm", "tests/support")

_OFFICE = """attend attendant attended attending attends attention agenda book books chore clerk desk errand herald
    inbox journal ledger letter letters porter scribe standing standings surroundings tenure usher wish wishes"""
_THEATRE = """casting deck dismiss perform performed performs piece pieces play played playing plays plot repertoire
    scene scenery scenes stage stages"""
_DRAMA = "besiege bolted crowds dice forsake freed gate gates household ripe siege trouble troubled troubles"
_UNWANTED = frozenset([*_OFFICE.split(), *_THEATRE.split(), *_DRAMA.split()])

_ALLOWED = {
    "stage": "Spark's word, and Iceberg's `stageOnly`",
    "stages": "Spark's word",
}
"""The words with a meaning in the field, each with the reason, in the only files that need them."""
_ALLOWED_IN = frozenset(
    {
        "lakewarden/client/bodies.py",
        "lakewarden/executors/contract.py",
        "lakewarden/executors/worker/runs.py",
        "lakewarden/executors/worker/session.py",
        "lakewarden/executors/worker/stages.py",
        "lakewarden/service/http/schemas.py",
        "tests/support/doubles/fake_pool.py",
        "live/iceberg/together/upserts.py",
        "tests/contract/pool/test_pool.py",
        "tests/integration/executors/test_session.py",
        "tests/support/iceberg/iceberg_upserts.py",
        "tests/support/pool/light_worker.py",
        "tests/unit/executors/test_protocol.py",
        "tests/unit/executors/worker/test_lifetime.py",
    }
)

_HELD_PROSE = (
    "lakewarden/service",
    "lakewarden/planners",
    "lakewarden/executors",
    "tests/support/doubles",
    "lakewarden/cli",
    "lakewarden/client",
)
"""The folders and files with prose that this test holds. A room is added here after its prose was rewritten."""
_NO_NOUNS = "whoever whomever somebody someone anybody anyone everybody everyone nobody whom whose"
_PRONOUN = re.compile(rf"(?i)\b(?:{'|'.join(_NO_NOUNS.split())}|of[\s#]+which)\b")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Yield the names in a module: its variables, attributes, parameters, functions and classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield name
            case _:
                pass


def _unwanted(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)} & _UNWANTED


def test_no_identifier_and_no_module_has_a_word_of_an_office_or_a_theatre() -> None:
    """A reader who knows the field can guess the meaning of each name: a command, a lease, a scenario, an error."""
    files = [file for room in _ROOMS for file in (_ROOT / room).rglob("*.py")]
    assert len(files) > 500
    found = set()
    for file in files:
        path = file.relative_to(_ROOT)
        names = {*path.with_suffix("").parts, *_identifiers(parsed(file))}
        allowed = _ALLOWED.keys() if str(path) in _ALLOWED_IN else frozenset()
        found |= {f"{path}: {name}" for name in names if _unwanted(name) - allowed}
    assert not sorted(found)


def test_each_exception_is_needed() -> None:
    """A word without a use is forbidden everywhere."""
    used = {word for path in _ALLOWED_IN for name in _identifiers(parsed(_ROOT / path)) for word in _unwanted(name)}
    assert used == set(_ALLOWED)


def test_a_word_is_found_within_a_name() -> None:
    """This holds for every spelling of the name."""
    assert _unwanted("test_inbox") == _unwanted("InboxSize") == _unwanted("_INBOX") == {"inbox"}
    assert _unwanted("playback") == set()


def _held() -> list[Path]:
    """Return the files with prose that is held."""
    places = [_ROOT / place for place in _HELD_PROSE]
    return sorted(file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]))


def test_no_docstring_comment_or_message_has_a_pronoun_instead_of_a_noun() -> None:
    """A tired reader need not guess who "whoever" is: CONTRIBUTING.md has the rule."""
    files = _held()
    assert len(files) > 150
    found = [
        f"{file.relative_to(_ROOT)}: {' '.join(match[0].split())}"
        for file in files
        for match in _PRONOUN.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found


def test_a_pronoun_is_found_across_a_line_break() -> None:
    """In a docstring and in a comment. An identifier is not prose."""
    assert _PRONOUN.search("the first of\n    # which is")
    assert _PRONOUN.search("Nobody waits.")
    assert not _PRONOUN.search("Consequence.NOBODYS, test_nobody_waits")
