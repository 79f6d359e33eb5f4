"""Bodies of the API as a daemon sends them, so that a test names only what it is about."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lakewarden.client.bodies import ProblemBody, RunBody, TableBody


def run_body(run: str, *, table: str, **known: Any) -> RunBody:
    """Return a run of compaction that is queued."""
    body: RunBody = {
        "id": run,
        "table": table,
        "service": "compaction",
        "state": "QUEUED",
        "instant": None,
        "reason": "5 of 5 commits",
        "requested_by": "policy",
        "step": None,
        "epoch": 1,
        "created_at": "2026-05-01T12:00:00Z",
        "started_at": None,
        "ended_at": None,
        "run_seconds": None,
        "waits_for": None,
        "outcome": None,
        "figures": {},
        "rewrite_all": False,
    }
    body.update(known)  # type: ignore[typeddict-item]  # the test says what differs
    return body


def table_body(table: str, **known: Any) -> TableBody:
    """Return a table that was not observed yet."""
    body: TableBody = {
        "id": table,
        "format": "hudi",
        "path": f"/data/{table}",
        "owner": None,
        "mode": "act",
        "poll_seconds": 10.0,
        "paused": None,
        "failure": None,
        "observed_seconds_ago": None,
        "observed_at": None,
        "name": None,
        "kind": None,
        "version": None,
        "latest_instant": None,
        "writers": None,
        "warnings": [],
        "faults": [],
        "services": {},
        "contact": None,
        "labels": {},
    }
    body.update(known)  # type: ignore[typeddict-item]  # the test says what differs
    return body


def problem_body(status: int, detail: str, *, remedy: str | None = None) -> ProblemBody:
    """Return an error."""
    return {
        "type": "about:blank",
        "title": "refused",
        "status": status,
        "detail": detail,
        "code": "refused",
        "remedy": remedy,
    }


_UNKNOWN = json.dumps(problem_body(404, "there is no such table"))


@contextmanager
def answering(answers: Mapping[str, str]) -> Iterator[str]:
    """Serve fixed answers by path, and yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = answers.get(self.path)
            body = (_UNKNOWN if known is None else known).encode()
            self.send_response(404 if known is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
