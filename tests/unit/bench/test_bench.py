"""The bench as a command: its figures, and how a figure is judged."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import asdict
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import bench
from bench.__main__ import EVERYTHING, LONG, NAMES, main, module_of
from bench.figure import Figure, figure, joined, worse
from bench.observing.big_iceberg_table import BigIcebergTable
from tests.support.sources import parsed
from tools.suite import everything

_MODULES = Path(bench.__file__).parent


@pytest.mark.parametrize("name", EVERYTHING)
def test_everything_that_has_a_name_can_be_measured_also_in_brief(name: str) -> None:
    """A request for a figure must not fail after minutes because the module does not load."""
    assert "brief" in inspect.signature(importlib.import_module(module_of(name)).measure).parameters


def test_the_brief_run_measures_every_bench_there_is() -> None:
    """If `./dev test --all` did not run a bench, it could stop working unnoticed."""
    benches = {
        file.stem
        for file in _MODULES.rglob("*.py")
        if any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in parsed(file).body)
    }
    assert sorted(EVERYTHING) == sorted(benches)
    assert sorted(NAMES + LONG) == sorted(EVERYTHING)
    assert ("./dev", "bench", "--brief") in [part.command for part in everything()]


@pytest.mark.long
def test_the_brief_run_of_a_bench_prints_its_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0 whether the goal is met or not: so little work says nothing about a goal."""
    monkeypatch.setattr("sys.argv", ["bench", "--brief", "neglected"])

    assert main() == 0

    assert "neglected_" in capsys.readouterr().out


@pytest.mark.long
def test_a_bench_that_gives_no_figure_fails_the_brief_run_after_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run names every bench that is broken."""
    monkeypatch.setattr("sys.argv", ["bench", "--brief", "iceberg_observe", "neglected"])
    monkeypatch.delattr("bench.observing.iceberg_observe.large_table")

    assert main() == 1

    told = capsys.readouterr()
    assert "iceberg_observe gave no figure" in told.err
    assert "neglected_" in told.out


def test_a_name_that_is_none_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured for a misspelled name."""
    monkeypatch.setattr("sys.argv", ["bench", "hook_flod"])

    with pytest.raises(SystemExit):
        main()

    assert "there is no hook_flod; there is idle_poll" in capsys.readouterr().err


def _p99(ours: float) -> Figure:
    return figure("p99", ours, "ms", judged="ours", goal=("<=", 20))


def test_a_goal_is_met_up_to_its_bound() -> None:
    """A latency of exactly the goal meets it."""
    assert [_p99(ours).met for ours in (19.9, 20, 20.1)] == [True, True, False]


def _pool(ratio: float) -> Figure:
    return figure("pool", 30 / ratio, "s", judged="ratio", goal=(">=", 5), ratio=ratio, baseline=30)


def test_several_measurements_are_their_median_and_their_range() -> None:
    """The range is of the value that the goal is about."""
    together = joined([_pool(5.5), _pool(4.9), _pool(6.1)])

    assert (together.ratio, together.least, together.most, together.times) == (5.5, 4.9, 6.1, 3)
    assert together.met


@pytest.mark.parametrize(
    ("now", "then", "is_worse"),
    [
        (_p99(14), joined([_p99(9), _p99(10), _p99(12)]), True),
        (_p99(13), joined([_p99(9), _p99(10), _p99(12)]), False),
        (_p99(2), joined([_p99(9), _p99(10), _p99(12)]), False),
        (_pool(4), joined([_pool(5.5), _pool(4.9), _pool(6.1)]), True),
        (_pool(9), joined([_pool(5.5), _pool(4.9), _pool(6.1)]), False),
        (_p99(1000), _p99(10), False),
    ],
)
def test_a_figure_is_worse_if_it_is_beyond_the_last_by_more_than_its_range(
    now: Figure, then: Figure, is_worse: bool
) -> None:
    """A machine that is shared gives a range. One measurement has none, and says nothing about another one."""
    assert (worse(now, asdict(then)) is not None) is is_worse


# The large tables of the bench are valid Iceberg tables.


def test_another_reader_finds_what_was_written(tmp_path: Path) -> None:
    """The reader finds every snapshot with its files, including those of merged manifests."""
    written = BigIcebergTable(tmp_path / "large", snapshots=130, files=520, partitions=7)
    written.append()
    table = StaticTable.from_metadata(str(written.metadata_file))
    for at, snapshot in (
        (0, table.metadata.snapshots[0]),
        (99, table.metadata.snapshots[99]),
        (130, table.current_snapshot()),
    ):
        assert snapshot is not None
        entries = [one for manifest in snapshot.manifests(table.io) for one in manifest.fetch_manifest_entry(table.io)]
        assert len({one.data_file.file_path for one in entries}) == len(entries) == 4 * (at + 1)
        assert {one.sequence_number for one in entries} == set(range(1, at + 2))
