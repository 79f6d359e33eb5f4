"""The commit hooks: each marks the tables that it is about as dirty, and is answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from lakewarden.planners.model.table import TableId
from lakewarden.service.hooks import cloudevents, hudi, iceberg
from lakewarden.service.hooks.hints import Hint, MalformedHookError
from lakewarden.service.http.limits import TooLargeError
from lakewarden.service.http.port import ControlPlane
from lakewarden.service.http.schemas import HintBody, HookBody

_PARSE_ASIDE_BYTES = 64 * 2**10
_ICEBERG = "/v1/hooks/iceberg/"

_Read = Callable[[bytes], Sequence[Hint]]
HookHeard = Callable[[str, str], None]
"""Told the sender and the result of every hook."""


def add_hooks(app: FastAPI, plane: ControlPlane, heard: HookHeard) -> None:
    """Add the routes, one for each sender."""

    async def taken(sender: str, request: Request, read: _Read) -> tuple[str, list[TableId]]:
        """Return what became of a hook, and the tables that are looked at for it."""
        try:
            body = await request.body()
            # A large body is parsed beside the loop, so that it holds up no other sender.
            aside = len(body) > _PARSE_ASIDE_BYTES
            hints = await asyncio.to_thread(read, body) if aside else read(body)
        except TooLargeError:
            heard(sender, "too_large")
            raise
        except MalformedHookError as wrong:
            heard(sender, "malformed")
            raise HTTPException(400, str(wrong)) from wrong
        tables = list(dict.fromkeys(table for hint in hints for table in plane.mark_dirty(hint)))
        result = "accepted" if tables else "unknown_table" if hints else "ignored"
        heard(sender, result)
        return result, tables

    @app.post("/v1/hooks/hudi", status_code=202)
    async def hudi_commit(request: Request) -> HookBody:
        """Take Hudi's HTTP commit callback."""
        result, tables = await taken("hudi", request, hudi.hints_of)
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
        await taken(iceberg.SENDERS[address.kind], request, lambda body: iceberg.hints_of(address, catalog, body))

    @app.post("/v1/hooks/cloudevents", status_code=202)
    async def cloud_event(request: Request, catalog: str | None = None) -> HintBody:
        """Take a CloudEvent of Lakekeeper or Polaris, in binary or structured mode. `catalog` as for Iceberg."""
        headers = dict(request.headers)
        result, tables = await taken("cloudevents", request, lambda body: cloudevents.hints_of(headers, catalog, body))
        return HintBody(result=result, tables=tables)
