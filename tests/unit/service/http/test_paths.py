"""Paths with characters that no name has."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.service.http.hooks import HOOKS
from lakewarden.service.http.request_limits import PlainPaths, PlainRequests


async def _reached(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def _status_of(middleware: ASGIApp, parts: Scope) -> int:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {
        "type": "http",
        "method": "POST",
        "path": HOOKS,
        "raw_path": b"",
        "query_string": b"",
        "headers": [],
        **parts,
    }

    async def called() -> None:
        await middleware({**scope, **parts}, _nothing, send)

    asyncio.run(called())
    (status,) = statuses
    return status


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


_PATHS = PlainPaths(_reached, hooks=HOOKS)


@given(st.builds(str.__add__, st.sampled_from(["/v1/runs/", HOOKS, ""]), st.text(max_size=20)))
def test_a_path_with_a_control_character_names_nothing(path: str) -> None:
    """PostgreSQL refuses a NUL, and logs break at a new line. Every other path, and each hook, is passed on."""
    assert _status_of(_PATHS, {"path": path}) == (200 if path.isprintable() or path.startswith(HOOKS) else 404)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("/v1/tables/cow%2Fexplain", 404),
        ("/v1/tables/cow%2fexplain", 404),
        ("/v1/tables/cow/explain", 200),
        ("/v1/tables/cow%252Fexplain", 200),
        ("/v1/hooks/iceberg/a%2Fb", 200),
    ],
)
def test_an_encoded_slash_does_not_become_a_slash(raw: str, status: int) -> None:
    """A proxy in front that judges by paths sees one part. A hook may have one in the name of a namespace."""
    assert _status_of(_PATHS, {"path": unquote(raw), "raw_path": raw.encode()}) == status


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"raw_path": b"/" + b"a" * 9000}, "long_url"),
        ({"query_string": b"a" * 9000}, "long_url"),
        ({"headers": [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")]}, "two_lengths"),
        ({"headers": [(b"transfer-encoding", b"chunked")]}, None),
        ({"headers": [(b"x", b"a" * 20_000)]}, "long_head"),
        ({}, None),
    ],
)
def test_what_is_long_or_has_two_lengths_is_refused_also_of_hooks(parts: Scope, kind: str | None) -> None:
    """A proxy in front may read a body with two lengths differently."""
    refused: list[str] = []
    status = _status_of(PlainRequests(_reached, on_refusal=lambda kind, _sender: refused.append(kind)), parts)

    assert (status == 200, refused) == (kind is None, [kind] if kind else [])
