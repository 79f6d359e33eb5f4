"""`lakewarden explain`: a daemon's explanation on a terminal, and clear words where there is none to be had."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakewarden.cli import main
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.plane import TableStatus
from lakewarden.service.reporting.explain import explain

EXPLAINED = explain(
    TableStatus(table=Table(id=TableId("sales.orders"), format="hudi", location="/data/orders")),
    decided=(),
    last_runs={},
    waiting={},
    now=datetime(2026, 1, 1, tzinfo=UTC),
)
TABLES = json.dumps([{"id": "sales.orders"}, {"id": "sales.returns"}])


@contextmanager
def _answering(answers: Mapping[str, str]) -> Iterator[str]:
    """Serve fixed answers by path, and yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_table_is_explained_as_the_daemon_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Text for people by default, and with --json exactly what the API answers."""
    answers = {"/v1/tables": TABLES, "/v1/tables/sales.orders/explain": EXPLAINED.model_dump_json()}
    with _answering(answers) as url:
        assert main(["explain", "sales.orders", "--url", url]) == 0
        text = capsys.readouterr().out
        assert main(["explain", "sales.orders", "--url", url, "--json"]) == 0

    assert text.startswith("sales.orders  hudi  /data/orders\n  mode            observe\n")
    assert json.loads(capsys.readouterr().out) == json.loads(EXPLAINED.model_dump_json())


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("sales.order", "did you mean sales.orders"), ("payments", "there are sales.orders, sales.returns")],
)
def test_an_unknown_table_is_answered_with_known_ones(
    asked: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nearest names where there are any, else the first of all."""
    with _answering({"/v1/tables": TABLES}) as url:
        assert main(["explain", asked, "--url", url]) == 2

    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert hint in told.err


def test_a_daemon_that_is_not_there_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it was looked for, and both things that can be done."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["explain", "orders", "--url", url]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"no daemon answers at {url}" in line
    assert "lakewarden serve" in line
    assert "--url" in line


@pytest.mark.parametrize("answers", [{}, {"/v1/tables": "<html>"}])
def test_another_server_is_not_taken_for_a_daemon(
    answers: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What listens there may be anything: no stack trace, one line."""
    with _answering(answers) as url:
        assert main(["explain", "orders", "--url", url]) == 2

    assert "is no Lakewarden daemon" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["localhost:8080", "file:///etc/passwd", ""])
def test_an_address_of_another_kind_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but HTTP is asked."""
    assert main(["explain", "orders", "--url", url]) == 2
    assert "begins with http" in capsys.readouterr().err
