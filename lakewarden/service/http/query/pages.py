"""Pages: the one envelope of every list, and the cursor that leads to the next page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from pydantic import BaseModel

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
    rest = sorted((one for one in items if after is None or by(one) > after), key=by)
    return rest[:limit], by(rest[limit - 1]) if len(rest) > limit else None


def link_to_next(request: Request, response: Response, cursor: str | None) -> None:
    """Put the address of the next page, with the same filters, into the header `Link`."""
    if cursor is not None:
        asked = [(key, value) for key, value in request.query_params.multi_items() if key != "after"]
        response.headers["Link"] = f'<{request.url.path}?{urlencode([*asked, ("after", cursor)])}>; rel="next"'
