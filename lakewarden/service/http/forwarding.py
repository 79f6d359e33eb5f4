"""A request about a table that another replica attends is passed on to that replica, and its answer back: one hop."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fastapi import Request, Response
from fastapi.routing import APIRoute

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import Attendant, ControlPlane
from lakewarden.service.state.readers.threads import PlacedThreads

FORWARDED_FOR = "Lakewarden-Forwarded-For"
"""Names the table for which a replica has passed a request on: it is passed on once only."""

_ONLY_ASKS = frozenset({"GET", "HEAD"})
_AGAIN = timedelta(seconds=5)
_HOPS = 16
_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 6 * 60.0  # longer than the longest barrier
_OF_THE_CONNECTION = frozenset({"connection", "content-length", "date", "host", "keep-alive", "transfer-encoding"})


def forwarding(plane: ControlPlane) -> type[APIRoute]:
    """Return the kind of route whose requests with a `{table}` are answered by whoever attends that table.

    Where nobody can answer, the answer is 503 and says who should have.
    """
    hops = PlacedThreads(most=_HOPS, of_a_place=_HOPS)  # an attendant that is slow to answer holds up nothing but them

    class ForwardingRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer_here = super().get_route_handler()

            async def answer(request: Request) -> Response:
                elsewhere = _elsewhere(plane, request)
                if elsewhere is None:
                    return await answer_here(request)
                body = await request.body()
                passed_on = hops.submit(lambda: _passed_on(request, body, elsewhere), place=elsewhere.url)
                return await asyncio.wrap_future(passed_on)

            return answer

    return ForwardingRoute


def _elsewhere(plane: ControlPlane, request: Request) -> Attendant | None:
    """Return the replica that is to answer; None for this one. Raises TemporaryError if nobody can."""
    table = TableId(request.path_params.get("table", ""))
    if plane.table(table) is None:  # not about a table, or about none that is known: we can say that
        return None
    attendant = plane.attendant(table)
    if attendant is None and request.method in _ONLY_ASKS:  # what the store knows of it can be told by anybody
        return None
    if attendant is None:
        raise TemporaryError(f"no replica attends table {table} at the moment: ask again soon", delay=_AGAIN)
    if attendant.here:
        return None
    if FORWARDED_FOR in request.headers:
        raise TemporaryError(f"replica {attendant.id} attends table {table} now: ask again soon", delay=_AGAIN)
    return attendant


def _passed_on(request: Request, body: bytes, attendant: Attendant) -> Response:
    address = urlsplit(attendant.url)
    connection = _connection(address)
    try:
        connection.connect()
        connection.sock.settimeout(_ANSWER_SECONDS)
        path = address.path.rstrip("/") + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {**_passing(request.headers), FORWARDED_FOR: request.path_params["table"]}
        connection.request(request.method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return Response(answer.read(), answer.status, headers=_passing(dict(answer.getheaders())))
    except (OSError, http.client.HTTPException) as away:
        table = request.path_params["table"]
        where = f"replica {attendant.id} attends table {table}, and cannot be reached at {attendant.url}"
        raise TemporaryError(f"{where}: {away}", delay=_AGAIN) from away
    finally:
        connection.close()


def _connection(address: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    return kind(address.hostname or "", address.port, timeout=_CONNECT_SECONDS)


def _passing(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}
