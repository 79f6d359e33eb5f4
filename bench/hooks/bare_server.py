"""A server that takes a callback, answers it, and does nothing else: the cost of a callback on this machine alone.

python -m bench.hooks.bare_server PORT
"""

from __future__ import annotations

import asyncio
import re
import sys

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if announced := _LENGTH.search(head):
        await reader.readexactly(int(announced[1]))
    writer.write(_ANSWER)
    await writer.drain()
    writer.close()


async def _serve(port: int) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
