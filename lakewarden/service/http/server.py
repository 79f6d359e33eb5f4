"""One HTTP server with a thread and a loop of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import anyio.to_thread
import structlog
import uvicorn
from starlette.types import ASGIApp

from lakewarden.executors.edge import edge
from lakewarden.planners.model.errors import PermanentError, UnknownError
from lakewarden.service.config.identity import TlsSettings
from lakewarden.service.events import Sampler
from lakewarden.service.http.access.callers import Count, told_of, uncounted
from lakewarden.service.http.connections import (
    CONNECTION,
    HEAD_BYTES,
    Connection,
    Connections,
    PortLimits,
    WatchedRequests,
)
from lakewarden.service.http.errors import Outermost
from lakewarden.service.model.problems import DESCRIPTORS

log = structlog.get_logger(__name__)

_LEAVE_SECONDS = 3
_BACKLOG = 1024
_THREADS = 16
"""So many requests that wait for the store, or make a long answer, are handled at a time."""

_READ_BYTES = 64 * 2**10
"""So much of what a client sends is read at a time. More would hold up the others, and occupy memory."""

_IDLE_SECONDS = 15
_HANDSHAKE_SECONDS = 5.0
_SHUTDOWN_SECONDS = 1.0
"""How long the end of a TLS connection waits for its client."""

_SWEEP_SECONDS = 0.1
_REST_SECONDS = 0.05
LOOK_SECONDS = 5.0
"""How often the files of a certificate are looked at."""

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # clients could fill the log with its warnings


class HttpServer:
    """Serves an application inside a `with` block: `with HttpServer(app, host=..., port=...):`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        host: str,
        port: int,
        limits: PortLimits | None = None,
        tls: TlsSettings | None = None,
        refused: Count = uncounted,
    ) -> None:
        """Bind the address, so that a taken port is known at the start. Raises PermanentError if that fails, or if the
        certificate of `tls` cannot be used.

        `refused` counts the refusals.
        """
        limits = limits or PortLimits()
        patience = limits.patience.total_seconds()
        self._config = uvicorn.Config(
            WatchedRequests(Outermost(app)),
            loop="asyncio",
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            limit_concurrency=2 * limits.connections,  # requests of clients that have gone count, too
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=max(1, round(min(_IDLE_SECONDS, patience))),
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
        self.name = name
        self._failed: Callable[[], None] = lambda: None
        self._leaving = False
        self._certificates = None if tls is None else Certificates(name, tls)
        self._handshake_seconds = min(_HANDSHAKE_SECONDS, patience)
        self._server = uvicorn.Server(self._config)
        self._on_refusal = told_of(name, refused)
        self._connections = Connections(limits, on_refusal=self._on_refusal)
        self._sampler = Sampler()
        self._socket = _bound(name, host, port)
        self._thread = threading.Thread(target=self._serve, name=f"http-{name}", daemon=True)

    @property
    def port(self) -> int:
        """The port of the socket."""
        return int(self._socket.getsockname()[1])

    def or_else(self, failed: Callable[[], None]) -> HttpServer:
        """Call `failed` if the thread ends by a bug. The end of the `with` block then raises UnknownError."""
        self._failed = failed
        return self

    def __enter__(self) -> HttpServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended_by_a_bug = not self._leaving and not self._thread.is_alive()
        self._leaving = self._server.should_exit = True
        self._thread.join(timeout=_LEAVE_SECONDS * 2)
        with suppress(OSError):
            self._socket.close()
        if ended_by_a_bug and error is None:
            raise UnknownError(f"the port {self.name} ended by a bug: the log says which")

    def _serve(self) -> None:
        try:
            with edge("http_port_failed", port=self.name):
                asyncio.run(self._live())
        finally:
            if not self._leaving:
                self._failed()

    async def _live(self) -> None:
        """Let uvicorn serve the connections that are accepted here. Outside the main thread uvicorn does not handle
        signals.
        """
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        asyncio.get_running_loop().set_exception_handler(self._log_failure)
        serving = asyncio.create_task(self._server.serve(sockets=[]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0)
        accepting = asyncio.create_task(self._accept())
        while not (self._server.should_exit or serving.done() or accepting.done()):
            self._connections.sweep(time.monotonic())
            await asyncio.sleep(_SWEEP_SECONDS)
        self._server.should_exit = True
        accepting.cancel()
        while not serving.done():  # connections that are open then must end, too
            self._connections.sweep(time.monotonic())
            await asyncio.wait({serving}, timeout=_SWEEP_SECONDS)
        await serving
        with suppress(asyncio.CancelledError):
            await accepting

    async def _accept(self) -> None:
        """Accept connections as long as there is room. Further ones wait in the queue of the system."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._socket)
            except OSError as error:  # the client has gone again, or the process may open no more files
                if error.errno in _CLOSED:
                    raise
                self._on_refusal(DESCRIPTORS, "")
                self._connections.make_room()
                await asyncio.sleep(_REST_SECONDS)
                continue
            while not self._connections.has_room(time.monotonic()):
                await asyncio.sleep(_REST_SECONDS)
            connection = Connection(client=str(peer[0]), since=time.monotonic())
            connection.opening = loop.create_task(self._open(accepted, connection))
            self._connections.add(connection)
            await asyncio.sleep(0)  # what older connections have sent is read first, so that a probe is not late

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        context = None if self._certificates is None else self._certificates.context()
        handshake, shutdown = (None, None) if context is None else (self._handshake_seconds, _SHUTDOWN_SECONDS)
        http = self._config.http_protocol_class(  # type: ignore[call-arg]
            config=self._config,
            server_state=self._server.server_state,
            app_state={CONNECTION: connection},
            _loop=loop,
        )
        try:
            connection.transport, _ = await loop.connect_accepted_socket(
                lambda: http,
                accepted,
                ssl=context,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=shutdown,
            )
        except OSError:  # the client has gone already, or speaks no TLS
            accepted.close()

    def _log_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what asyncio would log for each connection, such as a head that h11 cannot read, a few times a minute."""
        withheld = self._sampler.admit(type(context.get("exception")).__name__)
        if withheld is not None:
            reason = context.get("exception") or context.get("message")
            log.warning("connection_failed", port=self.name, reason=str(reason)[:200], not_told_before=withheld)


def _bound(name: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # If the protocol is named, asyncio sends at once (TCP_NODELAY), otherwise after up to 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_BYTES)
    listening.settimeout(0)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # connections before the start of the loop wait, and are not refused
    except OSError as taken:
        listening.close()
        raise PermanentError(f"{name} cannot listen on {host}:{port}: {taken.strerror}; set {name}.port") from taken
    return listening


_CLOSED = (errno.EBADF, errno.EINVAL)
"""What accept(2) says of a socket that does not listen."""

_Versions = tuple[tuple[int, int, int], ...]


class Certificates:
    """Keeps one context for TLS with the newest certificate. Only the loop of the port uses it.

    Connections that are open keep the certificate that they began with.
    """

    def __init__(self, name: str, settings: TlsSettings, *, every_seconds: float = LOOK_SECONDS) -> None:
        """Read the files. Raises PermanentError if they are no certificate with its key."""
        self._name = name
        self._settings = settings
        self._every_seconds = every_seconds
        self._refused: _Versions = ()
        self._looked_at = time.monotonic()
        try:
            self._versions = self._versions_on_disk()
            self._context = self._made()
        except (OSError, ValueError) as wrong:  # ssl.SSLError is an OSError
            raise PermanentError(f"{name}.tls cannot be used: {_reason(wrong)}") from wrong

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If the new files are wrong, the old certificate stays in use."""
        now = time.monotonic()
        if now - self._looked_at >= self._every_seconds:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
        versions: _Versions = ()
        try:
            versions = self._versions_on_disk()
            if versions == self._versions:
                return
            # A new context: an old one with a new certificate and an old key would refuse every connection.
            self._context, self._versions, self._refused = self._made(), versions, ()
            log.info("certificate_read", port=self._name)
        except (OSError, ValueError) as wrong:
            if versions != self._refused or not versions:
                self._refused = versions
                log.warning("certificate_refused", port=self._name, reason=_reason(wrong))

    def _versions_on_disk(self) -> _Versions:
        files = (path.stat() for path in (self._settings.certificate, self._settings.key))
        return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in files)

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._settings.certificate, self._settings.key, password=_no_password)
        return context


def _no_password() -> str:
    raise ValueError("the private key has a password")


def _reason(wrong: Exception) -> str:
    return getattr(wrong, "strerror", None) or str(wrong)
