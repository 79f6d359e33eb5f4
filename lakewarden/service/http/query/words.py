"""What is wrong with a value of a request, in plain words and not in those of the library that checks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewarden.planners.settings import shown


def in_plain_words(found: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, from an error of pydantic."""
    kind = str(found["type"])
    facts = {"sent": shown(found["input"]), **found.get("ctx", {})}
    if kind in _SAID:
        return _SAID[kind].format(**facts)
    needed = next((words for start, words in _NEEDED.items() if kind.startswith(start)), None)
    return str(found["msg"]) if needed is None else f"needs {needed}, not {facts['sent']}"


_SAID: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "value_error": "{error}",
    "json_invalid": "is no JSON: {error}",
    "enum": "is one of {expected}, not {sent}",
    "literal_error": "is one of {expected}, not {sent}",
    "string_too_long": "has at most {max_length} characters",
    "string_too_short": "has at least {min_length} characters",
    "greater_than_equal": "is at least {ge}, not {sent}",
    "less_than_equal": "is at most {le}, not {sent}",
    "string_pattern_mismatch": "{sent} does not have the form {pattern}",
}
"""What is said of each error of pydantic, by its name."""

_NEEDED: Mapping[str, str] = {
    "bool_": "true or false",
    "dict_": "an object",
    "float_": "a number",
    "int_": "a whole number",
    "list_": "a list",
    "mapping_": "an object",
    "model_": "an object",
    "string_": "a text",
    "time_delta": "a duration such as 10s",
}
"""What must be there, by the beginning of the name of the error in pydantic."""
