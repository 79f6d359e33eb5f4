"""`lakewarden report` on real tables of all formats: found, read in processes of their own, printed three times."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.commands.observing import as_served, observed
from lakewarden.service.commands.report import LakeReport, ReportOptions, report_of
from lakewarden.service.commands.report_printing import document_of, page_of, print_report, text_of
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.model.reasons import CODES

FIXTURES = Path(__file__).parents[3] / "fixtures"


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
    code = print_report(ReportOptions(places=places, **options), out=out, err=err)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def report(lake: Path) -> LakeReport:
    """Observe the lake once. The files of the tables are the same before and after."""
    before = snapshot(lake)
    found = report_of(ReportOptions(places=(str(lake),)), err=io.StringIO())
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
    """Nothing is counted twice or left out. A service with work is counted although it is blocked."""
    for name, of in document["services"].items():
        lines = [s for table in document["tables"] for s in table["services"] if s["service"] == name]
        due = [one for one in lines if one["is_due"]]
        assert of.get("due", 0) == sum(one["decision"] == "WouldRun" for one in lines)
        assert of.get("blocked", 0) == sum(one["decision"] == "Blocked" for one in lines)
        assert of.get("not due", 0) == sum(one["decision"] == "NotDue" for one in lines)
        for key in ("read_files", "read_bytes", "write_files", "delete_files"):
            assert of.get(key, 0) == sum(one[key] or 0 for one in due)


def test_each_service_has_a_reason_and_a_block_has_a_remedy(document: Any) -> None:
    """A reader of the report knows why, and what to do."""
    services = [service for table in document["tables"] for service in table["services"]]
    assert services
    assert all(one["reason"] for one in services)
    assert all(one["remedy"] for one in services if one["decision"] == "Blocked")
    assert all(one["code"] in CODES for one in services)


def test_what_blocks_is_told_first_and_is_blocked_although_nothing_is_due(report: LakeReport, document: Any) -> None:
    """As a daemon decides: the lock is missing for each service of the Hudi tables, whether it has work or not."""
    hudi = [one for table in document["tables"] if table["format"] == "hudi" for one in table["services"]]
    assert {one["decision"] for one in hudi} == {"Blocked"}
    assert {one["is_due"] for one in hudi} == {True, False}
    out = io.StringIO()
    Console(file=out, width=180).print(text_of(report, most=0))
    assert 0 < out.getvalue().index("no lock is configured") < out.getvalue().index("fewer files")
    text = " ".join(out.getvalue().split())
    assert f"{len(document['tables'])} tables read, 1 could not be read." in text
    assert all(re.search(rf"{re.escape(Path(one['location']).name)}\s", text) for one in document["tables"])


def test_a_pipe_has_no_padding_and_no_broken_line(lake: Path) -> None:
    """A line is as long as its text, so `wc`, `less` and the log of a job are readable."""
    code, out, _ = printed(f"{lake}/hudi", f"{lake}/paimon")
    lines = out.splitlines()
    assert code == 0
    assert all(line == line.rstrip() for line in lines)
    assert any("If the table is a copy or was moved" in line and line.endswith("who made the plan") for line in lines)


def test_a_database_with_tables_of_one_format_is_no_catalog_of_another(tmp_path: Path) -> None:
    """It has no table of Paimon's, and that is no part that could not be read."""
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("sales")
    rows = pa.table({"id": [1, 2, 3]})
    catalog.create_table("sales.orders", rows.schema).append(rows)
    place = f"jdbc:sqlite:{tmp_path}/catalog.db?warehouse={tmp_path}&name=prod"
    code, out, err = printed(place)
    assert (code, err) == (0, "")
    assert out.startswith("1 table read, 0 could not be read.")
    assert "paimon" not in out


def test_the_worst_table_comes_first(document: Any) -> None:
    """By the number of files that may go."""
    fewer = [one["files_fewer"] for one in document["tables"]]
    assert fewer == sorted(fewer, reverse=True)


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


def test_a_directory_is_read_when_its_format_is_named(tmp_path: Path) -> None:
    """Nothing tells it from any folder. It is blocked until its owner says what only the owner knows."""
    day = tmp_path / "events" / "day=1"
    day.mkdir(parents=True)
    for number in range(7):
        (day / f"part-{number}.parquet").write_bytes(b"x" * 10)
    code, out, _ = printed(str(tmp_path / "events"), as_json=True, format_name="directory")
    [table] = json.loads(out)["tables"]
    assert code == 0
    [compaction] = table["services"]
    assert (compaction["service"], compaction["decision"]) == ("compaction", "Blocked")
    assert "as in 7d" in compaction["remedy"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("catalog://nowhere", "--config"),
        ("http://", "is not a catalog"),
        ("/*", "whole file system"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused(place: str, said: str) -> None:
    """The line says why."""
    code, _, err = printed(place)
    assert code == 2
    assert said in err


def test_a_table_that_needs_too_much_memory_fails_alone(lake: Path, tmp_path: Path) -> None:
    """The other table has its answer."""
    file = tmp_path / "large" / "metadata" / "v1.metadata.json"
    file.parent.mkdir(parents=True)
    with file.open("wb") as content:
        content.truncate(2**28)
    large = Table(id=TableId("large"), format="iceberg", location=f"{tmp_path}/large")
    small = Table(id=TableId("small"), format="hudi", location=f"{lake}/hudi/cow_v9")
    settings = ReadingSettings(processes=1, memory=2**28)
    views = {table.id: view for table, view in observed([as_served(large, None), small], None, settings=settings)}
    assert isinstance(views[large.id], str)
    assert not isinstance(views[small.id], str)


def test_the_report_judges_by_the_policies_of_the_configuration(lake: Path, tmp_path: Path) -> None:
    """As the daemon would: a table that the file has is judged by its entry."""
    file = tmp_path / "lakewarden.yaml"
    place = lake / "hudi" / "cow_v9"
    options, services = "writers: none, timeline_timezone: UTC", "{clean: {trigger: {num_commits: 1000}}}"
    file.write_text(f"tables: [{{id: t, format: hudi, path: {place}, options: {{{options}}}, services: {services}}}]")
    code, out, _ = printed(str(place), as_json=True, config=file)
    [table] = json.loads(out)["tables"]
    [clean] = table["services"]
    assert (code, clean["service"], clean["code"]) == (0, "clean", "trigger_not_reached")
