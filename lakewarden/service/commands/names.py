"""Names that are known, for an operator who has misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from lakewarden.client import Client, ClientError, NotFoundError

_SHOWN = 10
_READ = 20_000
_T = TypeVar("_T")


def suggested(table: str, known: Sequence[str]) -> str:
    """Return which tables may be meant: those with similar names, otherwise the first ones."""
    if not known:
        return "it has none"
    near = difflib.get_close_matches(table, known, n=3)
    shown = near or known[:_SHOWN]
    more = "" if near or len(known) <= _SHOWN else f" and {len(known) - _SHOWN} more"
    return f"{'did you mean' if near else 'there are'} {', '.join(shown)}{more}{'?' if near else ''}"


def about_table(client: Client, table: str, asked: Callable[[], _T]) -> _T:
    """Return what a request about a table answers. If the daemon does not know the table, the error has similar names.

    Raises ClientError.
    """
    try:
        return asked()
    except NotFoundError as unknown:
        known = _known(client)
        if known is None or table in known:  # it is another name that the daemon does not know
            raise
        raise NotFoundError(
            f"the daemon at {client.url} has no table {table!r}; {suggested(table, known)}",
            status=unknown.status,
            problem=unknown.problem,
        ) from unknown


def _known(client: Client) -> Sequence[str] | None:
    try:
        return [one["id"] for one in islice(client.each_of_tables(), _READ)]
    except ClientError:
        return None
