"""Pages: the one envelope of every list, and the cursor that leads to the next page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator

from lakewarden.planners.settings import shown

LONGEST_NAME = 1000
"""The longest accepted id of a table or a run, and the longest cursor."""

Name = Annotated[str | None, Query(max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]*$")]
Limit = Annotated[int, Query(ge=1, le=1000)]

PAGED: Mapping[int | str, dict[str, Any]] = {
    200: {
        "description": "One page. If there is another one, `next` has its cursor, and `Link` its address.",
        "headers": {"Link": {"description": '`<address>; rel="next"`', "schema": {"type": "string"}}},
    }
}
"""The answer of a list, for its `responses`."""

_Item = TypeVar("_Item")


class Page(BaseModel, Generic[_Item]):
    """One page of a list. `next` is the cursor of the next page: send it as `after`. It is null on the last page."""

    items: list[_Item]
    next: str | None = None


def cut(
    items: Sequence[_Item], *, by: Callable[[_Item], str], after: str | None, limit: int
) -> tuple[Sequence[_Item], str | None]:
    """Return the first `limit` items after the cursor `after`, in the order of `by`, and the cursor of the next page.

    `by` is the cursor of an item. No two items have the same one.
    """
    rest = sorted((item for item in items if after is None or by(item) > after), key=by)
    return rest[:limit], by(rest[limit - 1]) if len(rest) > limit else None


def link_to_next(request: Request, response: Response, cursor: str | None) -> None:
    """Put the address of the next page, with the same filters, into the header `Link`."""
    if cursor is not None:
        parameters = [(key, value) for key, value in request.query_params.multi_items() if key != "after"]
        response.headers["Link"] = f'<{request.url.path}?{urlencode([*parameters, ("after", cursor)])}>; rel="next"'


# Moments in queries: RFC 3339, with a zone.

_RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)

_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_LAST = datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def _written(value: Any) -> Any:
    """Refuse what pydantic would take too, such as a number of seconds."""
    if isinstance(value, str) and _RFC_3339.fullmatch(value) is None:
        raise ValueError("a moment is written as 2026-11-23T12:00:00Z, with its zone")
    return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment is beyond the years 1 to 9999 in UTC") from None


def _with_room(moment: datetime) -> datetime:
    """Return a moment with room for a picture before and after it. Raises ValueError for another."""
    if not _FIRST <= moment <= _LAST:
        raise ValueError(f"the moment is not in the years {_FIRST.year} to {_LAST.year}")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_in_utc)]
"""A moment in UTC."""

ShownMoment = Annotated[Moment, AfterValidator(_with_room)]
"""A moment in UTC that a page can show."""


# What is wrong with a value of a request, in plain words and not in those of the library that checks it.


def in_plain_words(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, from an error of pydantic."""
    kind = str(error["type"])
    sent = error["input"]
    facts = {"sent": shown(sent.decode(errors="replace") if isinstance(sent, bytes) else sent), **error.get("ctx", {})}
    if kind in _SAID:
        return _SAID[kind].format(**facts)
    needed = next((words for start, words in _NEEDED.items() if kind.startswith(start)), None)
    return str(error["msg"]) if needed is None else f"needs {needed}, not {facts['sent']}"


_SAID: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "value_error": "{error}",
    "json_invalid": "is not JSON: {error}",
    "enum": "must be {expected}, not {sent}",
    "literal_error": "must be {expected}, not {sent}",
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
