"""Paths with characters that no name has."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from lakewarden.service.http.hooks import HOOKS
from lakewarden.service.http.requests import PlainPaths


async def _reached(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def _status_of(parts: Scope) -> int:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {"type": "http", "path": HOOKS, "raw_path": b"", "query_string": b"", "headers": [], **parts}
    middleware = PlainPaths(_reached, hooks=HOOKS, on_refusal=lambda _kind, _sender: None)
    asyncio.run(middleware(scope, _nothing, send))
    (status,) = statuses
    return status


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


@given(st.builds(str.__add__, st.sampled_from(["/v1/runs/", HOOKS, ""]), st.text(max_size=20)))
def test_a_path_with_a_control_character_names_nothing(path: str) -> None:
    """PostgreSQL refuses a NUL, and logs break at a new line. Every other path, and each hook, is passed on."""
    assert _status_of({"path": path}) == (200 if path.isprintable() or path.startswith(HOOKS) else 404)


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
    assert _status_of({"path": unquote(raw), "raw_path": raw.encode()}) == status


def test_a_long_address_and_two_lengths_are_refused_also_of_hooks() -> None:
    """A proxy in front may read the body of such a request differently."""
    assert _status_of({"raw_path": b"/" + b"a" * 9000}) == 414
    assert _status_of({"query_string": b"a" * 9000}) == 414
    assert _status_of({"headers": [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")]}) == 400
