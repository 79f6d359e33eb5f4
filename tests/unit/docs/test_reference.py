"""The reference pages equal what the code defines: the metrics and the routes of the daemon."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.__main__ import reported
from bench.figure import figure
from docs import benchmarks, cli, client, metrics, openapi, rest
from docs.nothing import empty_room
from lakewarden.client import Client
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.http.api import build_api
from lakewarden.service.http.server import HttpServer

PACKAGE = Path(__file__).parents[3] / "lakewarden"
PATHS = openapi.documented()["API port"]["paths"]
ROUTES = [(method.upper(), path) for path, methods in PATHS.items() for method in methods if path != "/v1/drain"]
"""All routes but the one that would end the daemon for the tests after it."""


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    """Serve the API of a running daemon without tables, and return a client of it."""
    room = empty_room()
    app = build_api(room.status, clock=SystemClock(), hook_heard=lambda _heard: None)
    room.daemon.start()
    control = threading.Thread(target=room.daemon.run)
    control.start()
    try:
        with (
            HttpServer(app, name="api", host="127.0.0.1", port=0) as server,
            httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60, verify=False) as client,
        ):
            yield client
    finally:
        room.daemon.stop()
        control.join(60)


def test_the_page_of_metrics_is_what_the_daemon_exports() -> None:
    """After a metric was added, renamed or described anew, `python -m docs.metrics` writes the page."""
    assert metrics.PAGE.read_text(encoding="utf-8") == metrics.text()


def test_every_metric_that_the_code_names_is_on_the_page() -> None:
    """No metric is made outside the registry from which the page is written."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "service").rglob("*.py"))
    named = set(re.findall(r'"(lakewarden_[a-z_]+)"', code))
    exported = {re.sub(r"_(total|info)$", "", metric.name) for metric in metrics.exported()}

    assert len(exported) > 40
    assert named <= exported


def test_every_label_is_explained() -> None:
    """The page explains the values of each label, and no label without a metric."""
    assert set(metrics.LABELS) == {label for metric in metrics.exported() for label in metric.labels}


def test_the_reference_of_the_site_has_each_route_and_each_body() -> None:
    """The site makes it from the OpenAPI. No link to a body leads nowhere."""
    text = rest.text()
    routes = set(re.findall(r"^### ([A-Z]+) (\S+)$", text, re.MULTILINE))
    bodies = {name.lower() for name in re.findall(r"^### (\w+)$", text, re.MULTILINE)}

    assert routes >= {(method.upper(), path) for path, methods in PATHS.items() for method in methods}
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= bodies


def test_the_openapi_of_both_ports_is_committed() -> None:
    """After a change of a route, a body or an error, `python -m docs.openapi` writes the files."""
    for file, content in openapi.described().items():
        assert file.read_text(encoding="utf-8") == content


def test_the_client_is_what_the_openapi_generates() -> None:
    """After a change of the OpenAPI, `python -m docs.client` writes the modules."""
    for file, content in client.modules().items():
        assert file.read_text(encoding="utf-8") == content


def test_the_client_has_a_method_for_each_operation_that_people_use() -> None:
    """Hooks are for writers."""
    operations = [
        one["operationId"]
        for path, methods in PATHS.items()
        for one in methods.values()
        if not path.startswith("/v1/hooks/")
    ]
    assert len(operations) > 25
    assert [one for one in operations if not callable(getattr(Client, one, None))] == []


def test_the_page_of_commands_is_what_the_command_line_has() -> None:
    """After a change of a command, an option or a help text, `python -m docs.cli` writes the page."""
    assert cli.PAGE.read_text(encoding="utf-8") == cli.text()


def test_each_operation_has_an_id_of_its_own_and_says_each_answer() -> None:
    """A client is generated from the ids. An answer without a description would surprise it."""
    operations = [
        one for port in openapi.documented().values() for path in port["paths"].values() for one in path.values()
    ]
    ids = [one["operationId"] for one in operations]
    assert len(ids) == len(set(ids)) > 30
    assert all({"431", "500", "503"} <= set(one["responses"]) for one in operations)
    assert all("default" not in one["responses"] for one in operations)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_declares_the_errors_that_it_answers(method: str, path: str, api: httpx.Client) -> None:
    """The errors are for an unknown table, a wrong body, and a body that is too large. Each has the one form of
    errors.
    """
    declared = PATHS[path][method.lower()]["responses"]
    address = re.sub(r"\{\w+\}", "unknown", path)
    answers = [
        api.request(method, address),
        api.request(method, address, json={"unknown": 1}),
        api.request(method, address, content=b"{"),
        api.request(method, address, params={"limit": "x", "engine": "x"}),
    ]
    found = {answer.status_code for answer in answers}

    assert {str(status) for status in found} <= set(declared)
    refused = [answer for answer in answers if answer.is_error]
    assert all({"type", "title", "status", "detail", "code"} <= set(answer.json()) for answer in refused)
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    assert ("{" in path) == (404 in found)


# The page of figures has the content of the report.


def test_the_page_is_what_the_report_says() -> None:
    """`python -m docs.benchmarks` writes it, so no figure is changed by hand."""
    assert benchmarks.PAGE.read_text(encoding="utf-8") == benchmarks.text(benchmarks.read(benchmarks.REPORT))


def test_the_figures_of_the_readme_are_those_of_the_report() -> None:
    """A figure that is measured anew must change in both."""
    readme = (benchmarks.HERE.parent / "README.md").read_text(encoding="utf-8")
    known = {record["name"]: record for record in benchmarks.read(benchmarks.REPORT)}

    assert f"take {known['ten_thousand_tables_cpu']['ours']:.1f} % of a core" in readme
    assert f"and {known['ten_thousand_tables_memory']['ours']:.0f} MiB" in readme
    assert f"in {known['pool']['ours']:.1f} s by one warm worker" in readme
    assert f"in {known['one_application']['baseline']:.1f} s by one new Spark application" in readme
    assert f"in {known['pool']['baseline']:.0f} s by one Spark process each" in readme


def test_every_figure_belongs_to_a_bench() -> None:
    """If a bench is removed or renamed, its figures must go too, for they could not be measured again."""
    records = benchmarks.read(benchmarks.REPORT)

    assert len(records) > 10
    assert [record["name"] for record in records if not benchmarks.belongs_to_a_bench(record)] == []


def test_a_new_report_takes_the_place_of_the_old_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new figure keeps the words of the old one, and no mark of it. Other figures stay, and new ones are added."""
    monkeypatch.setattr(benchmarks, "REPORT", tmp_path / "benchmarks.json")
    monkeypatch.setattr(benchmarks, "PAGE", tmp_path / "benchmarks.md")
    old = [
        {**reported([figure("pool", 9, "s", judged="ours", goal=("<=", 5))])[0], "what": "ten", "carried_over": True},
        reported([figure("mix_wall", 1, "s", judged="ours", goal=("<=", 5))])[0],
    ]
    benchmarks.REPORT.write_text(json.dumps(old))
    news = [figure(name, 3, "s", judged="ours", goal=("<=", 5)) for name in ("pool", "overhead")]
    (tmp_path / "report.json").write_text(json.dumps(reported(news)))

    benchmarks.main([str(tmp_path / "report.json")])

    pool, mix, overhead = benchmarks.read(benchmarks.REPORT)
    assert (pool["ours"], pool["met"], pool["what"], pool.get("carried_over")) == (3, True, "ten", None)
    assert (mix["ours"], overhead["ours"]) == (1, 3)
    assert "| `pool` | 3 s |" in benchmarks.PAGE.read_text()
