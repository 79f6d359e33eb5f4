"""Hudi's commit callbacks, as a writer sends them: the body of a real callback, each on a connection of its own."""

from __future__ import annotations

import asyncio
import http
import json
from pathlib import Path

_BODY = Path(__file__).parents[2] / "tests" / "fixtures" / "hudi" / "callbacks" / "1.2.0.json"


class Callbacks:
    """Sends callbacks to one port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._body = json.loads(_BODY.read_bytes())

    async def send(self, location: str) -> None:
        """Announce a commit to the table at `location`. Raises RuntimeError if the callback is not accepted."""
        body = json.dumps({**self._body, "basePath": f"file://{location}"}, separators=(",", ":"))
        request = (
            "POST /v1/hooks/hudi HTTP/1.1\r\n"
            "HUDI-CALLBACK-KEY: hudi_write_commit_http_callback\r\n"
            "Content-Type: application/json; charset=UTF-8\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"Host: 127.0.0.1:{self._port}\r\n"
            "Connection: Keep-Alive\r\n"
            "User-Agent: Apache-HttpClient/4.5.14 (Java/17.0.15)\r\n"
            "Accept-Encoding: gzip,deflate\r\n\r\n"
            f"{body}"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(request.encode())
            status = int((await reader.readline()).split()[1])
            await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.close()
        if status != http.HTTPStatus.ACCEPTED:
            raise RuntimeError(f"a callback was answered with {status}")
