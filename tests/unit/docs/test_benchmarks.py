"""The page of figures has the content of the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import reported
from bench.figure import figure
from docs import benchmarks


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
