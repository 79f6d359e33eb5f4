"""Commit hooks: what a hook says, and how a format declares the hooks that its writers and catalogs send.

A hook is a hint. It says which table should be observed. Nothing else in it is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import JsonObject


class MalformedHookError(Exception):
    """The body is not one that a known sender sends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """The table at a location, as `spelled_location` spells it. Links in the path may be unresolved.

    `folder` is the path below it in which something has changed. Empty if the hook does not tell.
    """

    location: str
    folder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """The table that a catalog knows as `identifier`, `<namespace>.<table>`. `catalog` is the name of the catalog in
    the configuration. Without it, every table of this name is meant: an observation too many costs one request.
    """

    identifier: str
    catalog: str | None = None


Hint = At | Named


_BETWEEN_LEVELS = "\x1f"
"""The unit separator. The REST specification of catalogs joins the levels of a namespace with it."""


def identifier_of(namespace: str, table: str) -> str:
    """Return the identifier of a table. The levels of its namespace may be joined by dots, or as in the REST
    specification.
    """
    return f"{namespace.replace(_BETWEEN_LEVELS, '.')}.{table}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HookReader:
    """Reads the bodies that were sent to one path. `read` gets a body, whether it is complete, and the catalog that the
    request names. It returns a hint for each table that the body names. It raises MalformedHookError.
    """

    sender: str
    read: Callable[[bytes, bool, str | None], Sequence[Hint]]


@dataclass(frozen=True, kw_only=True, slots=True)
class HookKey:
    """How the senders of a hook send an API key, if they cannot set a header of their own.

    They send it in `header`. `option` is the writer's option for it. `well_known` is its default. It is public.
    """

    header: str
    option: str
    well_known: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitHook:
    """How writers or catalogs announce commits to a format's tables, at `/v1/hooks/<format>`.

    `senders` are the labels of the senders in the metrics. `about` is the text for the documentation of the API.
    `below` is an example of a path that senders add to that address. None if they add none. `reader_of` gets such a
    path, still percent-encoded, and returns the reader of its bodies. None if it is the path of no hook. `key` is how
    senders send an API key. None if they send the headers of every client. `always` is the one answer of senders that
    fail by any other one. None if the answer may tell what became of the hook.
    """

    senders: tuple[str, ...]
    about: str
    reader_of: Callable[[str], HookReader | None]
    below: str | None = None
    key: HookKey | None = None
    always: Mapping[str, str] | None = None


def json_object(body: bytes, *, whole: bool = True) -> Mapping[str, Any]:
    """Return a body that is a JSON object. If the body is not complete, return its first members.

    Raises MalformedHookError.
    """
    if not whole:
        return _first_members(body)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the body is not JSON") from wrong
    if not isinstance(message, dict):
        raise MalformedHookError("the body is not a JSON object")
    return message


def _first_members(body: bytes) -> Mapping[str, Any]:
    """Return the members of an object before the one at which its text breaks off."""
    reader, members, unsure = JsonObject([body]), dict[str, Any](), ""
    try:
        for name in reader.members():
            members[name] = reader.value()
            # a number may continue, as 1.5|e3 does, and so it does not count if the text breaks off behind it
            unsure = name if isinstance(members[name], int | float) else ""
    except DamagedError:
        members.pop(unsure, None)
    if not members:
        raise MalformedHookError("the body is not a JSON object, or its first member is too large")
    return members
