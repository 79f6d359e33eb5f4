"""Bodies of the API as a daemon sends them, so that a test names only what it is about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from lakewarden.client.bodies import ProblemBody, RunBody, TableBody
from lakewarden.service.http import schemas
from tests.support.serving import Handler, serving

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


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


def a_run_told(**news: Any) -> schemas.RunBody:
    """Return a run that succeeded at noon, but for the `news`, as the daemon has it."""
    times = dict.fromkeys(("created_at", "started_at", "ended_at"), NOON)
    body = run_body("r1", table="orders", state="SUCCEEDED", reason="")
    return schemas.RunBody.model_validate({**body, **times, **news})


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
    """Serve fixed answers by path, and yield the address. A problem has its own status."""

    class Answers(Handler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, _UNKNOWN)
            status = json.loads(answer)["status"] if '"about:blank"' in answer else 200
            self.answer(status, answer.encode())

    with serving(Answers) as port:
        yield f"http://127.0.0.1:{port}"
