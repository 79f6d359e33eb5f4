"""What a catalog answers: its tables, or why it does not tell.

Dots separate the levels of a namespace, so a name that contains one can be named by no identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Listing

_WHY = "one of its names contains a dot, and Lakewarden separates names by dots: rename the table, or its namespace"


class LoginRefusedError(PermanentError):
    """A server refused the login: the name, the secret or the token is wrong or has expired."""


class UnansweredError(TemporaryError):
    """A server gave no answer: there was no connection, no answer in time, or it asks for fewer requests."""


def listing_of(tables: Iterable[Sequence[str]], *, unlisted: Mapping[str, str] | None = None) -> Listing:
    """Return the listing of these tables, each given by its levels. A table with a dot in a level is listed as
    refused.
    """
    identifiers: list[str] = []
    refused: dict[str, str] = {}
    for levels in tables:
        if any("." in level for level in levels):
            refused["/".join(levels)] = _WHY
        else:
            identifiers.append(".".join(levels))
    return Listing(tables=sorted(identifiers), unlisted=unlisted or {}, refused=refused)
