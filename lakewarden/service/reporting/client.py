"""The command line's questions to a running daemon."""

from __future__ import annotations

import difflib
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from lakewarden.planners.model.errors import PermanentError, TemporaryError

_PATIENCE_SECONDS = 5.0
_SHOWN = 10
# The daemon is a neighbour: a proxy for the world outside does not know it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, path: str) -> Any:
    """Return the daemon's answer to a GET, read as JSON.

    Raises TemporaryError where no daemon answers, PermanentError where it refuses or what answers is none.
    """
    if not url.startswith(("http://", "https://")):
        raise PermanentError(f"{url!r} is no address of a daemon: it begins with http:// or https://")
    try:
        with _OPENER.open(url.rstrip("/") + path, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        raise PermanentError(_refusal(refusal, url)) from refusal
    except (OSError, HTTPException) as away:
        reason = getattr(away, "reason", None) or away
        raise TemporaryError(
            f"no daemon answers at {url} ({reason}): start it with 'lakewarden serve', or say where it is with --url"
        ) from away
    except ValueError as strange:
        raise PermanentError(f"what answers at {url} is no Lakewarden daemon: say where it is with --url") from strange


def ask_of_table(url: str, table: str, question: str) -> Any:
    """Return the answer to a question about a table.

    Raises PermanentError, with names near to it, for a table that the daemon does not know, and as `ask` does.
    """
    known = [one["id"] for one in ask(url, "/v1/tables")]
    if table not in known:
        raise PermanentError(f"the daemon at {url} has no table {table!r}; {suggested(table, known)}")
    return ask(url, f"/v1/tables/{table}/{question}")


def suggested(table: str, known: Sequence[str]) -> str:
    """Return which tables may have been meant: the nearest names, else the first ones."""
    if not known:
        return "it has none"
    near = difflib.get_close_matches(table, known, n=3)
    shown = near or known[:_SHOWN]
    more = "" if near or len(known) <= _SHOWN else f" and {len(known) - _SHOWN} more"
    return f"{'did you mean' if near else 'there are'} {', '.join(shown)}{more}{'?' if near else ''}"


def _refusal(refusal: urllib.error.HTTPError, url: str) -> str:
    try:
        said = json.load(refusal)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"what answers at {url} is no Lakewarden daemon ({refusal.code}): say where it is with --url"
    return f"the daemon at {url} says: {said}"
