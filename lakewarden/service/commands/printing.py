"""Answers of the API as a terminal can show them, and names for an operator who has misspelled one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from lakewarden.client import Client, ClientError, NotFoundError
from lakewarden.client.bodies import RunBody
from lakewarden.planners.model.printable import printable


def as_written(answer: Any) -> str:
    """Return a body of the API as JSON, with the same values. Each character beyond ASCII is escaped, so no name can
    control a terminal.
    """
    return json.dumps(answer, indent=2)


def run_line(run: RunBody) -> str:
    """Return a run that was asked for, as one line."""
    return printable(f"run {run['id']} of {run['service']} on {run['table']} is {run['state']}: {run['reason']}")


_SHOWN = 10
_READ = 20_000
_T = TypeVar("_T")


def suggested(table: str, names: Sequence[str]) -> str:
    """Return which tables may be meant: those with similar names, otherwise the first ones."""
    if not names:
        return "it has none"
    near = difflib.get_close_matches(table, names, n=3)
    more = "" if near or len(names) <= _SHOWN else f" and {len(names) - _SHOWN} more"
    listed = ", ".join(near or names[:_SHOWN])
    return f"{'did you mean' if near else 'there are'} {listed}{more}{'?' if near else ''}"


def about_table(client: Client, table: str, ask: Callable[[], _T]) -> _T:
    """Return what a request about a table answers. If the daemon does not know the table, the error has similar names.

    Raises ClientError.
    """
    try:
        return ask()
    except NotFoundError as unknown:
        names = _names(client)
        if names is None or table in names:  # it is another name that the daemon does not know
            raise
        raise NotFoundError(
            f"the daemon at {client.url} has no table {table!r}; {suggested(table, names)}",
            status=unknown.status,
            problem=unknown.problem,
        ) from unknown


def _names(client: Client) -> Sequence[str] | None:
    try:
        return [table["id"] for table in islice(client.each(client.tables), _READ)]
    except ClientError:
        return None
