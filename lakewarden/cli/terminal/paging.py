"""Lists of the API, all pages of them, as JSON or for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakewarden.cli.terminal.showing import Column, show_items
from lakewarden.client import Client, StrangeError


def show_list(
    page: Callable[..., Any], columns: Sequence[Column], *, limit: int, as_json: bool, empty: str, **asked: Any
) -> None:
    """Print the items of a list, at most `limit` of them; 0 means all. Each item is as the API sends it. In JSON `next`
    is the cursor of the items after these.
    """
    from lakewarden.service.commands.printing import as_written  # noqa: PLC0415

    found = whole(page, limit=limit, **asked)
    if as_json:
        print(as_written(found))
    else:
        show_items(found["items"], columns, empty=empty)


def whole(page: Callable[..., Any], *, limit: int, **asked: Any) -> dict[str, Any]:
    """Return up to `limit` items of a list as one page; 0 means all. Raises StrangeError if a page leads to itself."""
    items: list[Any] = []
    after = None
    while True:
        most = min(limit - len(items), Client.PAGE) if limit else Client.PAGE
        found = page(**asked, limit=most, after=after)
        items += found["items"]
        following = found.get("next")
        if following is None or (limit and len(items) >= limit):
            return {**found, "items": items}
        if following == after:
            raise StrangeError(f"the page after {after!r} leads to itself")
        after = following
