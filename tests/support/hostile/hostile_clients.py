"""Clients that mean harm, to a server of this machine. Each is bounded in number and in time, and stops by itself.

    python -m tests.support.hostile.hostile_clients silent --port 8081 --count 513 --seconds 30

prints what became of it as one line of JSON. It raises its own limit of descriptors, not the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field

HOST = "127.0.0.1"
MOST = 4_000
LONGEST_SECONDS = 900.0
UPLOAD_BYTES = 8 * 2**20
_CONNECT_SECONDS = 10.0
_AT_ONCE = 64


@dataclass(kw_only=True)
class Outcome:
    """What became of an attack: `held` connections stood until its end, `closed` were closed by the server."""

    attack: str
    connected: int = 0
    not_connected: int = 0
    closed: int = 0
    held: int = 0
    answers: dict[int, int] = field(default_factory=dict)
    slowest_seconds: float = 0.0

    @property
    def answered(self) -> int:
        """How many answers came."""
        return sum(self.answers.values())


@dataclass(frozen=True, kw_only=True)
class Target:
    """A port of this machine, how many clients come, and how long they stay at most."""

    port: int
    count: int = 1
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST or not 0 < self.seconds <= LONGEST_SECONDS:
            raise ValueError(f"an attack has at most {MOST} clients and {LONGEST_SECONDS:g} seconds")


_Sends = Callable[[asyncio.StreamWriter, float], Awaitable[None]]


async def _attack(attack: str, target: Target, sends: _Sends) -> Outcome:
    """Connect so many clients, have each send, and wait for the server's answer or for the end."""
    outcome, until = Outcome(attack=attack), time.monotonic() + target.seconds
    answers: Counter[int] = Counter()
    door = asyncio.Semaphore(_AT_ONCE)

    async def one() -> None:
        async with door:
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection(HOST, target.port), _CONNECT_SECONDS)
            except (OSError, TimeoutError):
                outcome.not_connected += 1
                return
        outcome.connected += 1
        begun = time.monotonic()
        sending = asyncio.create_task(_suppressed(sends(writer, until)))
        try:
            status = await asyncio.wait_for(_status(reader), max(0.1, until - time.monotonic()))
        except TimeoutError:
            outcome.held += 1
        else:
            if status is None:
                outcome.closed += 1
            else:
                answers[status] += 1
                outcome.slowest_seconds = max(outcome.slowest_seconds, time.monotonic() - begun)
        finally:
            sending.cancel()
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(target.count)))
    outcome.answers = dict(sorted(answers.items()))
    outcome.slowest_seconds = round(outcome.slowest_seconds, 3)
    return outcome


async def _suppressed(sending: Awaitable[None]) -> None:
    with suppress(OSError):
        await sending


async def _status(reader: asyncio.StreamReader) -> int | None:
    """Return the status of the answer; None where the server closes without one."""
    try:
        line = await reader.readline()
    except (OSError, ValueError):
        return None
    parts = line.split()
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None


async def _drip(writer: asyncio.StreamWriter, chunk: bytes, until: float, every: float = 0.5) -> None:
    while time.monotonic() < until:
        writer.write(chunk)
        await writer.drain()
        await asyncio.sleep(every)


def _post(path: str, body: bytes, *more: str, length: int | None = None) -> bytes:
    head = (f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join((*head, "Content-Type: application/json", *more, "", "")).encode() + body


HOOK = "/v1/hooks/hudi"
_CALLBACK = b'{"basePath":"/nowhere"}'


async def silent(target: Target) -> Outcome:
    """Connect, and say nothing."""

    async def sends(_writer: asyncio.StreamWriter, _until: float) -> None:
        return

    return await _attack("silent", target, sends)


async def slow_heads(target: Target) -> Outcome:
    """Send one byte of a header at a time."""

    async def sends(writer: asyncio.StreamWriter, until: float) -> None:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        await _drip(writer, b"x", until)

    return await _attack("slow_heads", target, sends)


async def slow_bodies(target: Target) -> Outcome:
    """Announce a small body, and send one byte of it at a time."""

    async def sends(writer: asyncio.StreamWriter, until: float) -> None:
        writer.write(_post(HOOK, b"{", length=4096))
        await _drip(writer, b" ", until)

    return await _attack("slow_bodies", target, sends)


async def stalled_uploads(target: Target, *, path: str = HOOK) -> Outcome:
    """Send all of a body of 8 MiB but its last byte, and wait."""

    async def sends(writer: asyncio.StreamWriter, _until: float) -> None:
        writer.write(_post(path, b'{"basePath":"/x","a":"', length=UPLOAD_BYTES))
        chunk = b"x" * 2**16
        sent = 22
        while sent < UPLOAD_BYTES - 1:
            chunk = chunk[: UPLOAD_BYTES - 1 - sent]
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)

    return await _attack("stalled_uploads", target, sends)


async def deaf_readers(target: Target, *, path: str = "/openapi.json") -> Outcome:
    """Ask for many answers on one connection, and read none of them."""
    outcome, until = Outcome(attack="deaf_readers"), time.monotonic() + target.seconds

    async def one() -> None:
        try:
            reader, writer = await asyncio.open_connection(HOST, target.port, limit=1)
        except OSError:
            outcome.not_connected += 1
            return
        outcome.connected += 1
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        try:
            await asyncio.wait_for(
                _drip(writer, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() * 50, until, 0.1),
                max(0.1, until - time.monotonic()),
            )
        except TimeoutError:
            outcome.held += 1
        except OSError:
            outcome.closed += 1
        else:
            outcome.held += 1
        finally:
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(target.count)))
    return outcome


async def tiny_chunks(target: Target) -> Outcome:
    """Send a body in chunks of one byte each."""

    async def sends(writer: asyncio.StreamWriter, until: float) -> None:
        head = f"POST {HOOK} HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"
        writer.write(head.encode())
        await _drip(writer, b"1\r\n \r\n" * 10_000, until, 0)

    return await _attack("tiny_chunks", target, sends)


async def _requests(attack: str, target: Target, request: bytes) -> Outcome:
    async def sends(writer: asyncio.StreamWriter, _until: float) -> None:
        writer.write(request)
        await writer.drain()

    return await _attack(attack, target, sends)


async def huge_base_path(target: Target, *, size: int = UPLOAD_BYTES - 64) -> Outcome:
    """Name a table by a path of many megabytes, all of it segments."""
    body = json.dumps({"basePath": "/a" * (size // 2)}, separators=(",", ":")).encode()
    return await _requests("huge_base_path", target, _post(HOOK, body))


async def lone_surrogate(target: Target) -> Outcome:
    r"""Name a table by half a character: `\ud800`."""
    return await _requests("lone_surrogate", target, _post(HOOK, b'{"basePath":"/\\ud800"}'))


async def long_url(target: Target, *, size: int = 64_000) -> Outcome:
    """Ask with an address that a regular expression could be slow at."""
    path = "/v1/hooks/iceberg/" + "v1/namespaces/" * (size // 14)
    return await _requests("long_url", target, _post(path, b"{}"))


async def long_head(target: Target, *, size: int = 100_000) -> Outcome:
    """Send a header of this size, at once."""
    return await _requests("long_head", target, _post(HOOK, _CALLBACK, f"X-Long: {'x' * size}"))


async def length_and_chunks(target: Target) -> Outcome:
    """Say the length of the body twice, in two ways: what a proxy and a server may read differently."""
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(_CALLBACK), _CALLBACK)
    request = _post(HOOK, body, "Transfer-Encoding: chunked", length=len(_CALLBACK))
    return await _requests("length_and_chunks", target, request)


async def bare_line_feeds(target: Target) -> Outcome:
    """End the lines of the head by LF alone."""
    return await _requests("bare_line_feeds", target, _post(HOOK, _CALLBACK).replace(b"\r\n", b"\n"))


async def cross_origin(target: Target, *, path: str = "/v1/pause") -> Outcome:
    """Post as a page of another site has a browser do it."""
    return await _requests("cross_origin", target, _post(path, b"", "Origin: http://evil.example"))


async def rebound(target: Target, *, path: str = "/v1/pause") -> Outcome:
    """Post as a page does whose name was bound to this machine's address after it was loaded."""
    request = _post(path, b"", "Origin: http://evil.example").replace(HOST.encode(), b"evil.example")
    return await _requests("rebound", target, request)


async def nonsense(target: Target) -> Outcome:
    """Send what is no HTTP."""
    return await _requests("nonsense", target, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")


async def flood(target: Target, *, table: str = "/nowhere") -> Outcome:
    """Send hooks for one table as fast as they are answered, `count` senders at a time."""
    outcome, until = Outcome(attack="flood"), time.monotonic() + target.seconds
    answers: Counter[int] = Counter()
    request = _post(HOOK, json.dumps({"basePath": table}).encode(), "Connection: close")

    async def one() -> None:
        while time.monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection(HOST, target.port)
            except OSError:
                outcome.not_connected += 1
                await asyncio.sleep(0.05)
                continue
            outcome.connected += 1
            writer.write(request)
            try:
                status = await asyncio.wait_for(_status(reader), _CONNECT_SECONDS)
            except TimeoutError:
                status = None
            answers.update([status] if status is not None else [])
            outcome.closed += status is None
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(target.count)))
    outcome.answers = dict(sorted(answers.items()))
    return outcome


ATTACKS: dict[str, Callable[[Target], Awaitable[Outcome]]] = {
    attack.__name__: attack
    for attack in (
        *(silent, slow_heads, slow_bodies, stalled_uploads, deaf_readers, tiny_chunks, huge_base_path),
        *(lone_surrogate, long_url, long_head, length_and_chunks, bare_line_feeds, cross_origin, rebound),
        *(nonsense, flood),
    )
}
"""Every attack, by its name."""


def more_descriptors() -> None:
    """Let this process have as many connections as an attack needs, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST * 2 if hard == resource.RLIM_INFINITY else min(MOST * 2, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def main() -> None:
    """Run one attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=sorted(ATTACKS))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    more_descriptors()
    target = Target(port=asked.port, count=asked.count, seconds=asked.seconds)

    async def attack() -> Outcome:
        return await ATTACKS[asked.attack](target)

    print(json.dumps(asdict(asyncio.run(attack()))))


if __name__ == "__main__":
    main()
