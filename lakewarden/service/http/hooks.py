"""The commit hooks: each marks the tables that it is about as dirty, and is answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.hooks import cloudevents, hudi, iceberg
from lakewarden.service.hooks.hints import Hint, MalformedHookError
from lakewarden.service.http.bodies import TooLargeError, kept
from lakewarden.service.http.links import Links
from lakewarden.service.http.schemas import HintBody, HookBody
from lakewarden.service.state.readers.threads import PlacedThreads

HOOKS = "/v1/hooks/"
_ICEBERG = HOOKS + "iceberg/"

_BEGINNING_BYTES = 64 * 2**10
"""So much of a callback or a report tells which table it is about."""

_EVENT_BYTES = 2**20
"""An event is read as a whole: a bridge may put its attributes in any order."""

_Read = Callable[[bytes, bool], Sequence[Hint]]
HookHeard = Callable[[str, str], None]
"""Told the sender and the result of every hook."""


def add_hooks(app: FastAPI, plane: ControlPlane, heard: HookHeard) -> None:
    """Add the routes, one for each sender."""
    links, parser = Links(), PlacedThreads(most=1, of_a_place=1)

    async def marked(hint: Hint) -> Sequence[TableId]:
        """Mark the tables that a hint is about, where need be by the path behind a link."""
        tables = plane.mark_dirty(hint)
        elsewhere = None if tables else await links.resolved(hint)
        return tables if elsewhere is None else plane.mark_dirty(elsewhere)

    async def taken(
        sender: str, request: Request, read: _Read, *, most: int = _BEGINNING_BYTES
    ) -> tuple[str, list[TableId]]:
        """Return what became of a hook, and the tables that are looked at for it. `most` of its body is read."""
        try:
            body, whole = await kept(request, most=most)
            if len(body) > _BEGINNING_BYTES:  # one at a time and beside the loop, so that it holds up no other sender
                hints = await asyncio.wrap_future(parser.submit(lambda: read(body, whole), place="parser"))
            else:
                hints = read(body, whole)
        except TooLargeError:
            heard(sender, "too_large")
            raise
        except MalformedHookError as wrong:
            heard(sender, "malformed")
            raise HTTPException(400, str(wrong)) from wrong
        tables = list(dict.fromkeys([table for hint in hints for table in await marked(hint)]))
        result = "accepted" if tables else "unknown_table" if hints else "ignored"
        heard(sender, result)
        return result, tables

    @app.post(HOOKS + "hudi", status_code=202)
    async def hudi_commit(request: Request) -> HookBody:
        """Take Hudi's HTTP commit callback."""
        result, tables = await taken("hudi", request, lambda body, whole: hudi.hints_of(body, whole=whole))
        return HookBody(result=result, table=next(iter(tables), None))

    @app.post(_ICEBERG + "{path_of_catalog:path}", status_code=204)
    async def iceberg_report(request: Request, catalog: str | None = None) -> None:
        """Take what was sent to an Iceberg catalog, at `.../v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`
        or `/notifications`. `catalog` is its name in the configuration; without it every table of that name is meant.
        """
        raw_path = request.scope["raw_path"].decode("ascii")  # percent-encoded: a level of a namespace may hold a slash
        address = iceberg.address_of(raw_path.partition(_ICEBERG)[2])
        if address is None:
            raise HTTPException(
                404, f"hooks of Iceberg end as {_ICEBERG}v1/namespaces/NAMESPACE/tables/TABLE/metrics does"
            )
        await taken(
            iceberg.SENDERS[address.kind],
            request,
            lambda body, whole: iceberg.hints_of(address, catalog, body, whole=whole),
        )

    @app.post(HOOKS + "cloudevents", status_code=202)
    async def cloud_event(request: Request, catalog: str | None = None) -> HintBody:
        """Take a CloudEvent of Lakekeeper or Polaris, in binary or structured mode. `catalog` as for Iceberg."""
        headers = dict(request.headers)

        def read(body: bytes, whole: bool) -> Sequence[Hint]:  # noqa: FBT001 - as all of them are called
            if not whole:
                raise TooLargeError(_EVENT_BYTES)
            return cloudevents.hints_of(headers, catalog, body)

        result, tables = await taken("cloudevents", request, read, most=_EVENT_BYTES)
        return HintBody(result=result, tables=tables)
