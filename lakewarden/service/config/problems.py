"""The problems of a configuration, each with the path of its key. All are found at once."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from lakewarden.planners.model.printable import printable
from lakewarden.planners.settings import shown

KeyPath = tuple[str | int, ...]


class Weight(StrEnum):
    """What a problem means."""

    ERROR = "error"
    """The daemon does not start with it."""
    WARNING = "warning"
    """The daemon starts, and logs it once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What is wrong at one key, and what to write instead. `line` is set if the key does not give the line."""

    at: KeyPath
    sentence: str
    weight: Weight = Weight.ERROR
    line: int | None = None

    def __str__(self) -> str:
        """Return the problem in one line, without its file."""
        sentence = printable(self.sentence, most=_LONGEST_SENTENCE)
        parts = ["warning" if self.weight is Weight.WARNING else "", named(self.at), sentence]
        return ": ".join(part for part in parts if part)


def named(path: KeyPath) -> str:
    """Return a path as people write it: `tables[0].options.lock`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_printable(part)}" if text else _printable(part)
    return text


def _printable(key: str) -> str:
    return key if key.isprintable() and 0 < len(key) <= _LONGEST_KEY else shown(key)


_LONGEST_KEY = 100
_MOST_CHOICES = 8
_LONGEST_SENTENCE = 1_000


def problems_of(
    error: ValidationError, model: Any, *, raw: Any, at: KeyPath = (), homes: Mapping[str, str] | None = None
) -> list[Problem]:
    """Return each problem that pydantic found in `raw`, in the words of the file.

    `model` is the type that `raw` was validated as: a model, or a union of models. `homes` says for each key of the
    configuration where it belongs, for a key that stands elsewhere.
    """
    return [
        Problem(at=at + _as_written(detail["loc"], raw), sentence=_sentence(dict(detail), model, homes or {}))
        for detail in error.errors()
    ]


@cache
def adapter_of(model: Any) -> TypeAdapter[Any]:
    """Return what validates values as a type. To make it takes longer than to validate the options of a table."""
    return TypeAdapter(model)


def keys_of(model: Any) -> set[str]:
    """Return the keys of a model, or of all models of a union."""
    return _keys(model, ())


def without_problems(error: ValidationError, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `raw` without the keys that pydantic refused, so that the rest can be checked too."""
    sound = copy.deepcopy(raw)
    for detail in error.errors():
        path = _as_written(detail["loc"], raw)
        here: Any = sound
        for part in path[:-1]:
            here = here.get(part) if isinstance(here, dict) else here[part]
        if isinstance(here, dict):
            here.pop(path[-1], None)
    return sound


def _as_written(path: KeyPath, raw: Any) -> KeyPath:
    """Return the path of pydantic without the parts that are not in the file: the branch of a union, the mark
    of a key.
    """
    path = path[:-1] if path[-1:] == ("[key]",) else path
    kept: list[str | int] = []
    here = raw
    for number, part in enumerate(path):
        last = number == len(path) - 1
        if isinstance(here, Mapping) and part not in here and not last:
            continue
        kept.append(part)
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, Sequence) and isinstance(part, int) and part < len(here):
            here = here[part]
    return tuple(kept)


def _sentence(detail: dict[str, Any], model: Any, homes: Mapping[str, str]) -> str:
    match detail["type"]:
        case "extra_forbidden" if (home := homes.get(str(detail["loc"][-1]))) is not None:
            sentence = f"unknown key here: it belongs {home}"
        case "extra_forbidden":
            sentence = f"unknown key{_suggestion(detail['loc'], model)}"
        case "enum":
            sentence = _one_of(str(detail["ctx"]["expected"]).replace("'", ""), detail["input"])
        case "missing":
            sentence = "is missing"
        case "union_tag_not_found":
            sentence = f"needs a key {_unquoted(detail['ctx']['discriminator'])}"
        case "union_tag_invalid":
            what, tags = _unquoted(detail["ctx"]["discriminator"]), detail["ctx"]["expected_tags"]
            sentence = f"{_unquoted(what)}: {_one_of(tags.replace(chr(39), ''), detail['ctx']['tag'])}"
        case "value_error":
            sentence = str(detail["ctx"]["error"])
        case "string_pattern_mismatch":
            example = _example(model, detail["loc"])
            form = f"of {example}" if example else detail["ctx"]["pattern"]
            sentence = f"{shown(detail['input'])} does not have the form {form}"
        case _:
            sentence = _in_plain_words(detail, _example(model, detail["loc"]))
    return sentence


_IN_THE_TRADE: Mapping[str, str] = {
    "compact": "compaction",
    "cleaning": "clean",
    "delete_orphan_files": "orphans",
    "expire_snapshots": "clean",
    "optimize": "compaction",
    "remove_orphan_files": "orphans",
    "rewrite_data_files": "compaction",
    "rewrite_manifests": "archive",
    "sort": "clustering",
    "sql": "jdbc",
    "vacuum": "clean",
    "z_order": "clustering",
}
"""What users of Hudi, Iceberg and Delta call it, and what it is called here."""


def _one_of(choices: str, written: Any) -> str:
    names = choices.replace(" or ", ", ").split(", ")
    ours = _IN_THE_TRADE.get(str(written), "")
    near = [ours] if ours in names else difflib.get_close_matches(str(written)[:_LONGEST_KEY], names, n=1)
    if near and len(names) > _MOST_CHOICES:
        return f"there is no {shown(written)}; did you mean {near[0]}?"
    return f"must be {choices}, not {shown(written)}" + (f"; did you mean {near[0]}?" if near else "")


def _in_plain_words(detail: dict[str, Any], example: str) -> str:
    """Return what is wrong with the type of a value, in the words of a file and not in those of Python."""
    kind, written = str(detail["type"]), detail["input"]
    if written is None:
        return "is missing: the key has no value"
    if kind == "string_type" and isinstance(written, bool | int | float):
        return f'needs quotes to be text: "{str(written).lower()}"'
    for start, needed in _NEEDED.items():
        if kind.startswith(start):
            glued = needed is _KEYS and isinstance(written, str) and _GLUED.match(written) is not None
            hint = ", with a space after the colon" if glued else ""
            form = f", as in {example}" if example else ""
            return f"{needed}{hint or form}{_instead_of(written)}"
    message = str(detail["msg"])
    return f"{message[0].lower()}{message[1:]}{_instead_of(written)}"


def _instead_of(written: Any) -> str:
    if isinstance(written, Mapping):
        return ", not keys"
    if isinstance(written, bool):
        return f", not {str(written).lower()}"
    return ", not a list" if isinstance(written, list) else f", not {shown(written)}"


_GLUED = re.compile(r"[a-z_]+:\S")
_KEYS = "needs keys below it"
_NEEDED: Mapping[str, str] = {
    "dict_type": _KEYS,
    "model_": _KEYS,
    "mapping_type": _KEYS,
    "tuple_type": "needs a list: begin each entry with a dash",
    "list_type": "needs a list: begin each entry with a dash",
    "string_type": "needs text",
    "path_type": "needs a path",
    "int_": "needs a whole number",
    "float_": "needs a number",
    "finite_number": "needs a number",
    "bool_": "needs true or false",
}
"""What must be there, by the beginning of the name of the error in pydantic."""


def _unquoted(text: str) -> str:
    return text.strip("'")


def _suggestion(path: Sequence[str | int], model: Any) -> str:
    keys = sorted(_keys(model, path[:-1]))
    near = difflib.get_close_matches(str(path[-1])[:_LONGEST_KEY].lower().replace("-", "_"), keys, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; it may be {', '.join(keys)}" if keys else ""


def _keys(model: Any, path: Sequence[str | int]) -> set[str]:
    """Return the keys that are allowed at `path`."""
    return {field.alias or key for branch in _branches(model, path) for key, field in branch.model_fields.items()}


def _example(model: Any, path: Sequence[str | int]) -> str:
    """Return the first example of the field at `path`; an empty text if it has none."""
    branches = _branches(model, path[:-1])
    fields = [branch.model_fields[key] for branch in branches for key in path[-1:] if key in branch.model_fields]
    return next((str(field.examples[0]) for field in fields if field.examples), "")


def _branches(model: Any, path: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that may stand at `path`: of a union those with its tag, which is a part of the path."""
    here = list(_models(model))
    for part in path:
        fields = [branch.model_fields[part] for branch in here if part in branch.model_fields]
        tagged = [
            branch
            for branch in here
            if any(get_args(field.annotation) == (part,) for field in branch.model_fields.values())
        ]
        here = [branch for field in fields for branch in _models(field.annotation)] or tagged or here
    return here


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
