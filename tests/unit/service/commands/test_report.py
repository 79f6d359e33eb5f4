"""`lakewarden report` on real tables of all formats: found, read in processes of their own, printed three times."""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from lakewarden.service.commands.report.document import document_of
from lakewarden.service.commands.report.lines import LakeReport
from lakewarden.service.commands.report.page import page_of
from lakewarden.service.commands.report.report import ReportOptions, print_report, report_of
from lakewarden.service.commands.report.text import text_of
from lakewarden.service.commands.report.workers import SurveyLimits, surveyed
from rich.console import Console

from lakewarden.planners.model.table import Table, TableId

FIXTURES = Path(__file__).parents[3] / "fixtures"
LIMITS = SurveyLimits(at_once=2, seconds=300)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables of two formats, a damaged one, and one whose name is markup."""
    folder = tmp_path_factory.mktemp("lake")
    for kind, names in {"hudi": ("mor_v6", "cow_v9"), "paimon": ("spark_keyed", "pypaimon_events")}.items():
        for name in names:
            with zipfile.ZipFile(FIXTURES / kind / f"{name}.zip") as archive:
                archive.extractall(folder / kind / name)
    with zipfile.ZipFile(FIXTURES / "paimon" / "spark_events.zip") as archive:
        archive.extractall(folder / "<img src onerror>")
    damaged = folder / "damaged" / ".hoodie"
    damaged.mkdir(parents=True)
    (damaged / "hoodie.properties").write_text("no properties at all")
    return folder


def printed(*places: str, **options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = print_report(ReportOptions(places=places, limits=LIMITS, **options), out=out, err=err)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def report(lake: Path) -> LakeReport:
    """Survey the lake once. The files of the tables are the same before and after."""
    before = snapshot(lake)
    found = report_of(ReportOptions(places=(str(lake),), limits=LIMITS), err=io.StringIO())
    assert snapshot(lake) == before
    return found


@pytest.fixture
def document(report: LakeReport) -> Any:
    return json.loads(document_of(report))


def snapshot(folder: Path) -> Mapping[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(folder.rglob("*"))
    }


def test_every_table_is_a_line_and_a_broken_one_is_a_reason(lake: Path, document: Any) -> None:
    """The broken table stops nothing, and it is named."""
    formats = sorted((Path(one["location"]).name, one["format"]) for one in document["tables"])
    assert formats == [
        ("<img src onerror>", "paimon"),
        ("cow_v9", "hudi"),
        ("mor_v6", "hudi"),
        ("pypaimon_events", "paimon"),
        ("spark_keyed", "paimon"),
    ]
    [unread] = document["unread"]
    assert unread["location"] == f"{lake}/damaged"
    assert "half-written or damaged" in unread["reason"]


def test_the_totals_are_the_sums_of_the_tables(document: Any) -> None:
    """Nothing is counted twice or left out."""
    tables, total = document["tables"], document["total"]
    assert total["tables"] == len(tables)
    for key in ("small", "deltas", "metadata", "kept"):
        for part in ("files", "bytes"):
            assert total[key][part] == sum(one[key][part] for one in tables)
    assert total["read_files"] == sum(one["read_files"] for one in tables)
    fewer = sum(s["reads"]["files"] - s["after"] for t in tables for s in t["services"] if _is_due(s))
    assert total["read_files_after"] == total["read_files"] - fewer
    for of in total["services"]:
        lines = [s for t in tables for s in t["services"] if s["service"] == of["service"]]
        assert of["due"] == sum(map(_is_due, lines))
        assert of["due"] + of["not_due"] == len(lines)


def _is_due(service: Any) -> bool:
    return service["verdict"] in ("due", "blocked")


def test_each_service_has_a_reason_and_a_block_has_a_remedy(document: Any) -> None:
    """A reader of the report knows why, and what to do."""
    services = [service for table in document["tables"] for service in table["services"]]
    assert services
    assert all(one["reason"] for one in services)
    assert all(one["remedy"] for one in services if one["verdict"] == "blocked")


def test_the_worst_table_comes_first(document: Any) -> None:
    """By the number of files that may go."""
    fewer = [one["files_fewer"] for one in document["tables"]]
    assert fewer == sorted(fewer, reverse=True)


def test_nothing_is_written_below_a_table(lake: Path, report: LakeReport) -> None:
    """No file is made, changed or deleted, whatever its format. The fixture compares the files before and after."""
    assert {one.format for one in report.tables} == {"hudi", "paimon"}
    assert all(one.location.startswith(f"{lake}/") for one in report.tables)


class _Parts(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [one for one in attrs if one[0] in ("src", "href", "srcset", "data") or one[0].startswith("on")]


def test_the_page_loads_nothing_and_runs_nothing(report: LakeReport) -> None:
    """It has no script, no link and no picture, although a table is called like one."""
    content = page_of(report)
    parts = _Parts()
    parts.feed(content)
    assert not {"script", "img", "link", "iframe", "object"} & set(parts.tags)
    assert not parts.loads
    assert "url(" not in content
    assert "&lt;img src onerror&gt;" in content
    assert "damaged" in content


def test_the_text_says_the_same_in_columns(report: LakeReport, document: Any) -> None:
    """The sentences have the figures of the document, and each table has a line."""
    out = io.StringIO()
    Console(file=out, width=180).print(text_of(report, most=0))
    text = " ".join(out.getvalue().split())
    assert f"{document['total']['tables']} tables were read and 1 could not be" in text
    assert f"open {document['total']['read_files']} files" in text
    assert all(re.search(rf"{re.escape(Path(one['location']).name)}\s", text) for one in document["tables"])


def test_a_place_without_tables_is_an_error(tmp_path: Path) -> None:
    """The exit code says it, and so does one line."""
    (tmp_path / "empty").mkdir()
    code, out, err = printed(str(tmp_path / "empty"))
    assert (code, out) == (2, "")
    assert "no table below" in err
    assert err.count("\n") == 1


def test_places_may_overlap_and_one_may_be_missing(lake: Path, tmp_path: Path) -> None:
    """The missing one is a line of the report. The tables of the others are each read once. The page is written."""
    page = tmp_path / "report.html"
    places = (f"{lake}/nowhere", f"{lake}/hudi", f"{lake}/hudi/cow*")
    code, out, err = printed(*places, as_json=True, html=page)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert sorted(Path(one["location"]).name for one in found["tables"]) == ["cow_v9", "mor_v6"]
    assert [one["location"] for one in found["unread"]] == [f"{lake}/nowhere"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_directory_is_surveyed_when_its_format_is_named(tmp_path: Path) -> None:
    """Nothing tells it from any folder. Nothing is due, because its owner has set no horizon."""
    day = tmp_path / "events" / "day=1"
    day.mkdir(parents=True)
    for number in range(7):
        (day / f"part-{number}.parquet").write_bytes(b"x" * 10)
    code, out, _ = printed(str(tmp_path / "events"), as_json=True, format_name="directory")
    [table] = json.loads(out)["tables"]
    assert code == 0
    assert table["live"] == {"files": 7, "bytes": 70}
    assert table["small"] == {"files": 7, "bytes": 70}
    [compaction] = table["services"]
    assert (compaction["verdict"], compaction["after"]) == ("not_due", 1)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("catalog://nowhere", "--config"),
        ("http://", "is no catalog"),
        ("/*", "whole file system"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused(place: str, said: str) -> None:
    """The line says why."""
    code, _, err = printed(place)
    assert code == 2
    assert said in err


def _table(number: int) -> Table:
    return Table(id=TableId(f"t{number}"), format="hudi", location=f"/t{number}")


HARM = {
    "/t1": ("time.sleep(3600)", "was not read within"),
    "/t4": ("os.kill(os.getpid(), 9)", "signal 9"),
    "/t5": ("print('nonsense', flush=True)", "no answer that can be understood"),
}
"""What a worker does at some tables, and what the report says of them."""


def harmful() -> tuple[str, ...]:
    """Return a worker that answers with the location of a table, unless it comes to harm there."""
    code = f"""
import os, pickle, sys, time
import lakewarden.service.commands.report.worker
pickle.load(sys.stdin.buffer)
print('{{}}', flush=True)
while True:
    table = pickle.load(sys.stdin.buffer)
    exec({ {location: what for location, (what, _) in HARM.items()} }.get(table.location, ''))
    print('{{"unread": "' + table.location + '"}}', flush=True)
"""
    return (sys.executable, "-c", code)


@pytest.mark.long
def test_a_table_that_ends_its_process_fails_alone() -> None:
    """The tables before it and after it have their answers, in their order."""
    tables = [_table(number) for number in range(7)]
    limits = replace(LIMITS, at_once=1, seconds=5.0)
    answers = surveyed(tables, limits=limits, command=harmful())
    for table, answer in zip(tables, answers, strict=True):
        said = HARM.get(table.location, ("", table.location))[1]
        assert said in (answer.unread or "")


def test_a_process_that_cannot_be_started_is_a_reason() -> None:
    """Each table has an answer."""
    answers = surveyed([_table(0), _table(1)], limits=LIMITS, command=("/nowhere/at/all",))
    assert all("no process can be started" in (one.unread or "") for one in answers)


def test_a_table_that_needs_too_much_memory_fails_alone(lake: Path, tmp_path: Path) -> None:
    """The next table gets a new process."""
    file = tmp_path / "large" / "metadata" / "v1.metadata.json"
    file.parent.mkdir(parents=True)
    with file.open("wb") as content:
        content.truncate(2**28)
    large = Table(id=TableId("large"), format="iceberg", location=f"{tmp_path}/large")
    small = Table(id=TableId("small"), format="hudi", location=f"{lake}/hudi/cow_v9")
    answers = surveyed([large, small], limits=replace(LIMITS, at_once=1, memory=2**26))
    assert answers[0].unread == "it cannot be read within 64MiB of memory"
    assert answers[1].table is not None
