"""Paths with characters that no name has."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from lakewarden.service.http.guard.paths import PlainPaths
from lakewarden.service.http.hooks import HOOKS


async def _reached(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


@given(st.builds(str.__add__, st.sampled_from(["/v1/runs/", HOOKS, ""]), st.text(max_size=20)))
def test_a_path_with_a_control_character_names_nothing(path: str) -> None:
    """PostgreSQL refuses a NUL, and logs break at a new line. Every other path, and each hook, is passed on."""
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(PlainPaths(_reached, hooks=HOOKS)({"type": "http", "path": path}, _nothing, send))

    assert statuses == [200 if path.isprintable() or path.startswith(HOOKS) else 404]


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
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {"type": "http", "path": unquote(raw), "raw_path": raw.encode()}
    asyncio.run(PlainPaths(_reached, hooks=HOOKS)(scope, _nothing, send))

    assert statuses == [status]
