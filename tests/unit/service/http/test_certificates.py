"""A port that speaks TLS, with a certificate that is read again."""

from __future__ import annotations

import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.identity import TlsSettings
from lakewarden.service.http.connections import PortLimits
from lakewarden.service.http.server import Certificates, HttpServer

PEMS = Path(__file__).parents[3] / "fixtures" / "tls"
LIMITS = PortLimits(connections=8, patience=timedelta(seconds=1))


def _put(folder: Path, name: str) -> TlsSettings:
    """Put a certificate and its key where the settings find them."""
    settings = TlsSettings(certificate=folder / "tls.crt", key=folder / "tls.key")
    shutil.copyfile(PEMS / f"{name}.crt", settings.certificate)
    shutil.copyfile(PEMS / f"{name}.key", settings.key)
    return settings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServer]:
    app = FastAPI()

    @app.get("/")
    def root() -> str:
        return "x" * 1_000_000

    tls = _put(tmp_path, "one")
    with HttpServer(app, name="api", host="127.0.0.1", port=0, limits=LIMITS, tls=tls) as made:
        yield made


def _trusting(name: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEMS / f"{name}.crt"))


def test_a_port_with_a_certificate_answers_by_tls_alone(server: HttpServer) -> None:
    """A client that trusts the certificate is answered, also at length. Others are not."""
    url = f"https://127.0.0.1:{server.port}/"
    with httpx.Client(verify=_trusting("one")) as client:
        assert len(client.get(url).json()) == 1_000_000
        assert client.get(url).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, verify=_trusting("two"))
    with pytest.raises(httpx.TransportError):
        httpx.get(url.replace("https", "http"))


def test_clients_that_do_not_finish_the_handshake_keep_no_other_out(server: HttpServer) -> None:
    """More of them than there are connections. They make room, and are closed in the end."""
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(30)]
    with httpx.Client(verify=_trusting("one"), timeout=10) as client:
        assert client.get(f"https://127.0.0.1:{server.port}/").status_code == 200
    for one in silent:
        one.settimeout(10)
        with suppress(ConnectionError):
            while one.recv(1000):
                pass
        one.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_silent_client_is_closed_by_tls_too(server: HttpServer, sent: bytes) -> None:
    """It finished the handshake, and sent no request, or half of one. The end does not wait for it."""
    begun = time.monotonic()
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        _trusting("one").wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.settimeout(300)
        client.sendall(sent)
        with suppress(ConnectionError, ssl.SSLError):
            assert client.recv(10) == b""
    assert time.monotonic() - begun > 0.9


def _name(certificates: Certificates) -> str:
    """Return the certificate that a client gets from the context."""
    client, ours = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    trusting = ssl.create_default_context(cafile=str(PEMS / "one.crt"))
    trusting.load_verify_locations(str(PEMS / "two.crt"))
    asking = trusting.wrap_bio(*client, server_hostname="localhost")
    answering = certificates.context().wrap_bio(*ours, server_side=True)
    for _ in range(10):
        for end in (asking, answering):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            ours[0].write(client[1].read())
            client[0].write(ours[1].read())
    subject = (asking.getpeercert() or {})["subject"]
    return str(subject[0][0][1])


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    """While the new files do not fit together, the old certificate stays in use."""
    certificates = Certificates("api", _put(tmp_path, "one"), every_seconds=0)
    assert _name(certificates) == "lakewarden one"

    shutil.copyfile(PEMS / "two.crt", tmp_path / "tls.crt")
    assert _name(certificates) == "lakewarden one"
    (tmp_path / "tls.key").unlink()
    assert _name(certificates) == "lakewarden one"
    shutil.copyfile(PEMS / "two.key", tmp_path / "tls.key")
    assert _name(certificates) == "lakewarden two"


def test_the_files_are_looked_at_every_few_seconds(tmp_path: Path) -> None:
    """A flood of connections reads no file."""
    certificates = Certificates("api", _put(tmp_path, "one"), every_seconds=0.2)
    _put(tmp_path, "two")
    assert _name(certificates) == "lakewarden one"
    time.sleep(0.25)
    assert _name(certificates) == "lakewarden two"


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        ("one.crt", "two.key"),
        ("one.crt", "locked.key"),
        ("one.key", "one.key"),
        ("none", "one.key"),
        ("one.crt", "none"),
    ],
)
def test_a_certificate_that_cannot_be_used_ends_the_start(certificate: str, key: str) -> None:
    """The message names the setting. No password is asked for at a terminal."""
    settings = TlsSettings(certificate=PEMS / certificate, key=PEMS / key)
    with pytest.raises(PermanentError, match=r"^api\.tls cannot be used: "):
        Certificates("api", settings)
