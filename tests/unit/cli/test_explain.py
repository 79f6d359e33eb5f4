"""`lakewarden explain` prints a daemon's explanation, or a clear error if there is none."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime

import pytest

from lakewarden.cli import main
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.reporting.explain import explain
from tests.support.daemon.answers import answering, table_body

EXPLAINED = explain(
    TableStatus(table=Table(id=TableId("sales.orders"), format="hudi", location="/data/orders")),
    decided=(),
    last_runs={},
    waiting={},
    now=datetime(2026, 1, 1, tzinfo=UTC),
)
TABLES = json.dumps({"items": [table_body("sales.orders"), table_body("sales.returns")], "next": None})


def test_a_table_is_explained_as_the_daemon_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The default is text for people. With --json it is exactly the API's answer."""
    answers = {"/v1/tables?limit=1000": TABLES, "/v1/tables/sales.orders/explain": EXPLAINED.model_dump_json()}
    with answering(answers) as url:
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
    """The nearest names are printed if there are any, else the first of all."""
    with answering({"/v1/tables?limit=1000": TABLES}) as url:
        assert main(["explain", asked, "--url", url]) == 4

    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert hint in told.err


def test_a_daemon_that_is_not_there_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the address and both possible remedies."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["explain", "orders", "--url", url]) == 5

    (line,) = capsys.readouterr().err.splitlines()
    assert f"no daemon answers at {url}" in line
    assert "lakewarden serve" in line
    assert "--url" in line


@pytest.mark.parametrize("answer", ["", "<html>", "{}", "[]", "null", '{"services": {"clean": 1}}', "[" * 100_000])
def test_another_server_is_not_taken_for_a_daemon(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any server may listen there, or a daemon of another version. The error is one line without a stack trace."""
    with answering({"/v1/tables/orders/explain": answer}) as url:
        assert main(["explain", "orders", "--url", url]) == 7

    assert "is not a Lakewarden daemon" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["localhost:8080", "file:///etc/passwd", ""])
def test_an_address_of_another_kind_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only HTTP is allowed."""
    assert main(["explain", "orders", "--url", url]) == 2
    assert "begins with http" in capsys.readouterr().err
