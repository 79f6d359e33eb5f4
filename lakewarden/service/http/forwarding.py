"""Forwarding: a request about a table that another replica owns goes to that replica, and its answer back. One hop."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane, TableOwner
from lakewarden.service.http.query.steps import Handler, Step
from lakewarden.service.http.reach import CONTROL_THREAD_ANSWERS_WITHIN
from lakewarden.service.state.readers.threads import PlacedThreads

FORWARDED_FOR = "Lakewarden-Forwarded-For"
"""The header of a forwarded request, with its table. Such a request is not forwarded again."""

_ONLY_ASKS = frozenset({"GET", "HEAD"})
_AGAIN = timedelta(seconds=5)
_RUNS, _LOG = "/v1/runs/", "/log"
_HOPS = 16
_CONNECT_SECONDS = 3.0
_READ_SECONDS = 3.0
_ACT_SECONDS = CONTROL_THREAD_ANSWERS_WITHIN.total_seconds() + 10
_BARRIER_SECONDS = 6 * 60.0  # longer than the longest barrier
_OF_THE_CONNECTION = frozenset({"connection", "content-length", "date", "host", "keep-alive", "transfer-encoding"})
_OF_THE_PAGE = ("origin", "sec-fetch-")
"""What a browser says of the page that sends a request. It names this replica, which has judged it."""


def forwarding(plane: ControlPlane) -> Step:
    """Return the step that lets the owner of the `{table}` in a path answer, or that of the `{run}` if only it has the
    progress or the log.

    If no replica can answer, the answer is 503 and names the owner. It says whether an act may have been carried out.
    """
    hops = PlacedThreads(most=4 * _HOPS, of_a_place=_HOPS)  # one that is slow delays only others of its kind and owner

    async def pass_on(request: Request, owner: TableOwner) -> Response:
        body = await request.body()
        seconds = _patience(request)
        place = f"{owner.url} within {seconds:g} s"
        return await asyncio.wrap_future(
            hops.submit(lambda: _passed_on(request, body, owner, seconds=seconds), place=place)
        )

    def step(_route: APIRoute, answer_here: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            elsewhere = _elsewhere(plane, request)
            if elsewhere is not None:
                return await pass_on(request, elsewhere)
            asks = request.method in _ONLY_ASKS and request.url.path.startswith(_RUNS)
            owner = await run_in_threadpool(_owner_of_run, plane, request) if asks else None
            if owner is None:
                return await answer_here(request)
            try:
                return await pass_on(request, owner)
            except TemporaryError:
                if request.url.path.endswith(_LOG):
                    raise
                return await answer_here(request)  # all but the progress is in the store

        return answer

    return step


def _elsewhere(plane: ControlPlane, request: Request) -> TableOwner | None:
    """Return the replica that must answer, or None for this one. Raises TemporaryError if no replica can."""
    table = TableId(request.path_params.get("table", ""))
    if plane.table(table) is None:  # not about a known table, so this replica can answer
        return None
    owner = plane.owner(table)
    if owner is None and request.method in _ONLY_ASKS:  # any replica can tell what the store knows about the table
        return None
    if owner is None:
        raise TemporaryError(f"no replica owns table {table} right now: try again in a few seconds", delay=_AGAIN)
    if owner.here:
        return None
    if FORWARDED_FOR in request.headers:
        raise TemporaryError(f"replica {owner.id} owns table {table} now: try again in a few seconds", delay=_AGAIN)
    return owner


def _owner_of_run(plane: ControlPlane, request: Request) -> TableOwner | None:
    """Return the living replica that alone has the progress or the log of a run that is asked for. None: this one.

    It asks the store.
    """
    if FORWARDED_FOR in request.headers:
        return None
    path = request.url.path
    run = plane.run(RunId(request.path_params.get("run", "")))
    if run is None or run.owner is None:
        return None
    if plane.run_log(run.id, limit=1) is not None if path.endswith(_LOG) else run.state.ended:
        return None
    owner = next((replica for replica in plane.replicas() if replica.id == run.owner), None)
    return (
        None if owner is None or owner.here or not owner.alive else TableOwner(id=owner.id, url=owner.url, here=False)
    )


def _about(request: Request) -> tuple[str, str]:
    """Return what a forwarded request is about, in words, and as it stands in the header."""
    table, run = request.path_params.get("table"), request.path_params.get("run", "")
    return (f"run {run}", run) if table is None else (f"table {table}", table)


def _patience(request: Request) -> float:
    """Return how many seconds an answer may take. The control thread answers a dry run, and all that acts."""
    if request.method == "POST" and request.url.path.endswith("/barrier"):
        return _BARRIER_SECONDS
    asks = request.method in _ONLY_ASKS and not request.url.path.endswith("/dry-run")
    return _READ_SECONDS if asks else _ACT_SECONDS


def _passed_on(request: Request, body: bytes, owner: TableOwner, *, seconds: float) -> Response:
    """Return the answer of the owner. Raises TemporaryError if nothing was done, and else UnknownError."""
    address = urlsplit(owner.url)
    connection = _connection(address)
    owns = f"replica {owner.id} owns {_about(request)[0]}, and"
    try:
        try:
            connection.connect()
        except OSError as away:
            raise TemporaryError(f"{owns} cannot be reached at {owner.url}: {away}", delay=_AGAIN) from away
        connection.sock.settimeout(seconds)
        raw_path = request.scope["raw_path"].decode("ascii")  # as it came: decoded, it would be another path
        path = address.path.rstrip("/") + raw_path + (f"?{request.url.query}" if request.url.query else "")
        sent = {name: value for name, value in request.headers.items() if not name.startswith(_OF_THE_PAGE)}
        headers = {**_passing(sent), FORWARDED_FOR: _about(request)[1]}
        connection.request(request.method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return Response(answer.read(), answer.status, headers=_passing(dict(answer.getheaders())))
    except (OSError, http.client.HTTPException) as away:
        silent = f"{owns} does not answer at {owner.url}: {away}"
        if request.method in _ONLY_ASKS:
            raise TemporaryError(silent, delay=_AGAIN) from away
        find_out = "it is not known whether the request was carried out: GET /v1/runs and GET /v1/audit tell"
        raise UnknownError(f"{silent}; {find_out}") from away
    finally:
        connection.close()


def _connection(address: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    return kind(address.hostname or "", address.port, timeout=_CONNECT_SECONDS)


def _passing(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}
