"""The commit hooks. Each marks the tables that it is about as dirty, and is answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future

import structlog
from fastapi import FastAPI, Request

from lakewarden.planners.hooks import At, CommitHook, Hint, HookReader, MalformedHookError
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage.locations import canonical_location, is_local
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.request_limits import TooLargeError, kept
from lakewarden.service.http.schemas import HookBody
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.received_hook import HeardHook, OnHook
from lakewarden.service.state.readers.threads import PlacedThreads, place_of

# A local path with a link is resolved in a thread of its own, because a dead mount never answers.

_THREADS = 2
_UNDER_WAY = 64
_SECONDS = 1.0


class Links:
    """Resolves a few paths at a time, each for a second at most. If that is not enough, the hint is lost."""

    def __init__(self) -> None:
        self._threads = PlacedThreads(most=_THREADS, of_a_place=_THREADS)
        self._under_way = 0

    async def resolved(self, hint: Hint) -> At | None:
        """Return the location of the table without links, or None if there are no links, or if it takes too long."""
        if not isinstance(hint, At) or not is_local(hint.location) or self._under_way >= _UNDER_WAY:
            return None
        loop = asyncio.get_running_loop()
        answer = self._threads.submit(lambda: canonical_location(hint.location), place=place_of(hint.location))
        self._under_way += 1
        answer.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        try:
            location = await self._waited_for(answer)
        except (TimeoutError, OSError, PermanentError):
            return None
        return None if location == hint.location else At(location=location)

    async def _waited_for(self, answer: Future[str]) -> str:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.shield(asyncio.wrap_future(answer))

    def _done(self) -> None:
        self._under_way -= 1


log = structlog.get_logger(__name__)

HOOKS = "/v1/hooks/"

HOOK_KEYS = {
    HOOKS + name: table_format.commit_hook.key
    for name, table_format in FORMATS.items()
    if table_format.commit_hook is not None and table_format.commit_hook.key is not None
}
"""The paths of hooks with senders that send an API key in a header of their own."""

_HOOK = needs(Role.HOOK)

_BEGINNING_BYTES = 64 * 2**10
"""How much of a callback or a report is read. Its beginning names the table."""

_PATIENCE_SECONDS = 2.0
_HEARING: set[asyncio.Future[object]] = set()
"""The hooks that are being heard: a task without a reference may be collected."""

_Read = Callable[[bytes, bool], Sequence[Hint]]
_Taken = Callable[[str, Request, _Read], Awaitable[tuple[str, list[TableId]]]]


def add_hooks(app: FastAPI, plane: ControlPlane, heard: OnHook) -> None:
    """Add the routes, one for each sender."""
    links = Links()

    async def marked(hint: Hint, caller: Caller) -> Sequence[TableId]:
        """Mark the tables that a hint of a caller is about. If there is none, try the path behind a link."""
        tables = plane.mark_dirty(hint, among=caller.reaches)
        elsewhere = None if tables else await links.resolved(hint)
        return tables if elsewhere is None else plane.mark_dirty(elsewhere, among=caller.reaches)

    async def taken(sender: str, request: Request, read: _Read) -> tuple[str, list[TableId]]:
        """Return the result of a hook, and the tables that are observed for it."""
        try:
            body, whole = await kept(request, most=_BEGINNING_BYTES)
            hints = read(body, whole)
        except TooLargeError:
            heard(HeardHook(sender=sender, result="too_large"))
            raise
        except MalformedHookError as wrong:
            heard(HeardHook(sender=sender, result="malformed"))
            raise ApiError(400, "malformed", str(wrong)) from wrong
        caller = caller_of(request)
        tables = list(dict.fromkeys([table for hint in hints for table in await marked(hint, caller)]))
        result = "accepted" if tables else "unknown_table" if hints else "ignored"
        sent_by = request.headers.get("traceparent")
        heard(HeardHook(sender=sender, result=result, tables=tuple(tables), traceparent=sent_by))
        return result, tables

    for table_format in FORMATS.values():
        if table_format.commit_hook is not None:
            _add_commit_hook(app, table_format.name, table_format.commit_hook, taken)


def _add_commit_hook(app: FastAPI, name: str, hook: CommitHook, taken: _Taken) -> None:
    """Add the route of a format: one path, or all paths below it."""
    below = f"{HOOKS}{name}/"

    async def commit(request: Request) -> HookBody:
        result, tables = await heard_by(hook.reader_of(""), request, None)
        return HookBody(result=result, table=next(iter(tables), None))

    async def report(request: Request, catalog: str | None = None) -> None:
        raw_path = request.scope["raw_path"].decode("ascii")  # percent-encoded: a namespace may contain a slash
        await heard_by(hook.reader_of(raw_path.partition(below)[2]), request, catalog)

    async def heard_by(reader: HookReader | None, request: Request, catalog: str | None) -> tuple[str, list[TableId]]:
        if reader is None:
            raise ApiError(404, "not_found", f"hooks of {name} end as {below}{hook.below} does")
        return await taken(reader.sender, request, lambda body, whole: reader.read(body, whole, catalog))

    always = hook.always
    if always is not None:

        async def success(request: Request) -> Mapping[str, str]:
            await _as_far_as_it_goes(heard_by(hook.reader_of(""), request, None))
            return always

        app.post(HOOKS + name, name=f"{name}_report", description=hook.about, openapi_extra=_HOOK)(success)
    elif hook.below is None:
        answers = errors(400, 413)
        app.post(
            HOOKS + name,
            status_code=202,
            name=f"{name}_commit",
            description=hook.about,
            responses=answers,
            openapi_extra=_HOOK,
        )(commit)
    else:
        path = below + "{path_of_catalog:path}"
        answers = errors(400, 413) | errors(404, meaning="The path is not that of a hook.")
        app.post(
            path,
            status_code=204,
            name=f"{name}_report",
            description=hook.about,
            responses=answers,
            openapi_extra=_HOOK,
        )(report)


async def _as_far_as_it_goes(hearing: Awaitable[object]) -> None:
    """Wait for a hook to be heard, for two seconds at most, whatever becomes of it: its sender would fail by a worse
    answer, and by none.
    """
    task = asyncio.ensure_future(hearing)
    _HEARING.add(task)
    task.add_done_callback(_HEARING.discard)
    await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)
    if task.done() and not task.cancelled() and isinstance(task.exception(), Exception):
        log.info("hook_not_heard", reason=str(task.exception()))
