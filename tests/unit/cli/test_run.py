"""`lakewarden trigger`: a run of any service of any format is asked for from a terminal, or only looked at before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from lakewarden.cli import main
from tests.support.daemon.answers import problem_body, run_body, table_body
from tests.support.serving import Handler, serving

RUN = run_body("run-1", table="sales.orders", reason="requested manually")
REFUSED = problem_body(409, "a lock is missing", remedy="name it")


@contextmanager
def daemon(answers: Mapping[str, tuple[int, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Serve fixed answers by method and path; yield the address, and the requests as they come."""
    seen: list[str] = []

    class Answers(Handler):
        def do_GET(self) -> None:
            seen.append(f"{self.command} {self.path}")
            status, answer = answers.get(seen[-1], (404, problem_body(404, "there is no such table")))
            self.answer(status, json.dumps(answer).encode())

        do_POST = do_DELETE = do_GET

    with serving(Answers) as port:
        yield f"http://127.0.0.1:{port}", seen


KNOWN: dict[str, tuple[int, Any]] = {
    "GET /v1/tables?limit=1000": (200, {"items": [table_body("sales.orders")], "next": None}),
}
DRY: dict[str, Any] = {
    "table": "sales.orders",
    "service": "clean",
    "begins": False,
    "decision": "Blocked",
    "code": "other",
    "reason": "a lock is missing",
    "remedy": "name it:\n  lock: {}",
    "instant": None,
    "active_run": None,
    "forecast": None,
    "says": "no run would begin: a lock is missing",
}
DRY_RUN = "GET /v1/tables/sales.orders/services/clean/dry-run"
COMPACTION = "POST /v1/tables/sales.orders/services/compaction/runs"
CLEAN = "POST /v1/tables/sales.orders/services/clean/runs"


def test_a_run_is_asked_for_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for people, and with --json exactly what the API answers."""
    with daemon({**KNOWN, COMPACTION: (202, RUN)}) as (url, _):
        assert main(["trigger", "sales.orders", "compaction", "--url", url]) == 0
        assert capsys.readouterr().out == "run run-1 of compaction on sales.orders is QUEUED: requested manually\n"
        assert main(["trigger", "sales.orders", "compaction", "--url", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == RUN


def test_a_dry_run_asks_for_nothing_and_says_what_a_request_would_meet(capsys: pytest.CaptureFixture[str]) -> None:
    """What blocks it is said with its remedy, of which the lines can be pasted."""
    with daemon({**KNOWN, DRY_RUN: (200, DRY)}) as (url, seen):
        assert main(["trigger", "sales.orders", "clean", "--dry-run", "--url", url]) == 0
        text = capsys.readouterr().out
        assert main(["trigger", "sales.orders", "clean", "--dry-run", "--json", "--url", url]) == 0
        assert json.loads(capsys.readouterr().out) == DRY
    assert not [one for one in seen if one.startswith("POST")]
    assert text == "sales.orders  clean: no run would begin: a lock is missing\n  -> name it:\n  lock: {}\n"


def test_a_refusal_is_said_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a conflict. One line on stderr."""
    with daemon({**KNOWN, CLEAN: (409, REFUSED)}) as (url, _):
        assert main(["trigger", "sales.orders", "clean", "--url", url]) == 6
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", f"the daemon at {url} says: a lock is missing; name it\n")


def test_an_unknown_table_is_answered_with_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """A daemon that knows the table says which services it has."""
    unknown = problem_body(404, "table sales.orders has no policy for 'orphans'; it has: compaction, clean")
    asked = {"POST /v1/tables/sales.orders/services/orphans/runs": (404, unknown)}
    with daemon({**KNOWN, **asked}) as (url, _):
        assert main(["trigger", "sales.order", "clean", "--url", url]) == 4
        assert "did you mean sales.orders" in capsys.readouterr().err
        assert main(["trigger", "sales.orders", "orphans", "--url", url]) == 4
    assert "it has: compaction, clean" in capsys.readouterr().err


OF_ALL = {**RUN, "rewrite_all": True}


def test_a_rewrite_of_all_files_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """If another run is under way, the line says that the rewrite begins after it."""
    beside = {**RUN, "state": "RUNNING", "rewrite_all": False}
    with daemon({**KNOWN, COMPACTION: (202, OF_ALL)}) as (url, _):
        assert main(["trigger", "sales.orders", "compaction", "--rewrite-all", "--url", url]) == 0
    with daemon({**KNOWN, COMPACTION: (200, beside)}) as (url, _):
        assert main(["trigger", "sales.orders", "compaction", "--rewrite-all", "--url", url]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "run run-1 of compaction on sales.orders is QUEUED: requested manually"
    assert second.endswith("is RUNNING: requested manually. The rewrite of all files begins after it")


def test_a_rewrite_of_all_files_is_withdrawn(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer has no body."""
    with daemon({**KNOWN, "DELETE /v1/tables/sales.orders/services/compaction/rewrite": (204, None)}) as (url, seen):
        assert main(["trigger", "sales.orders", "compaction", "--end-rewrite", "--url", url]) == 0
    assert "is withdrawn: no further run of it begins" in capsys.readouterr().out
    assert seen[-1].startswith("DELETE ")
