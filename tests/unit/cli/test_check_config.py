"""`lakewarden check-config` reports every problem, with file, line and key path. `serve` refuses the same problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.cli import main

WRONG = """\
daemon:
  drian: 10s
defaults:
  poll: 0s
tables:
  - id: orders
    format: hudi
    path: orders
  - id: events
    format: hudi
    path: s3://lake/events
    mode: act
    services: {compaction: {}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with three errors and a warning."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(WRONG)
    return file


def test_every_problem_is_told_with_its_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They come in the order of the lines, as a compiler prints them, so that editors can jump there. Their number
    follows.
    """
    assert main(["check-config", "--config", str(file)]) == 2

    told = capsys.readouterr()
    assert told.err == ""
    assert [line.removeprefix(f"{file}:").split(": is missing,")[0] for line in told.out.splitlines()] == [
        "2: daemon.drian: unknown key; did you mean drain?",
        "4: defaults.poll: 0s is too low: write 100ms to 1d",
        "8: tables[0].path: 'orders' is not absolute",
        "9: warning: tables[1].options.lock",
        " 3 errors and 1 warning",
    ]


def test_serve_refuses_exactly_the_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are the same: a file that was checked starts."""
    main(["check-config", "--config", str(file)])
    errors = [line for line in capsys.readouterr().out.splitlines()[:-1] if ": warning: " not in line]

    assert main(["serve", "--config", str(file)]) == 2

    assert capsys.readouterr().err.splitlines() == errors


def test_programs_are_told_in_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is one object, whatever is wrong."""
    assert main(["check-config", "--config", str(file), "--json"]) == 2

    told = json.loads(capsys.readouterr().out)
    assert told["file"] == str(file)
    assert told["tables"] is None
    assert told["problems"][1] == {
        "severity": "error",
        "line": 4,
        "key": "defaults.poll",
        "message": "0s is too low: write 100ms to 1d",
    }
    assert told["problems"][3]["severity"] == "warning"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("tables: []\n", ["1: warning: tables: is empty: no table is served", " 1 warning; 0 tables"]),
        ("tables: [{id: a, format: hudi, path: s3://lake/a}]\n", [" no problem; 1 table"]),
    ],
)
def test_a_file_without_errors_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, lines: list[str]
) -> None:
    """Warnings alone let the daemon start. The last line has the number of tables."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(text)

    assert main(["check-config", "--config", str(file)]) == 0

    assert capsys.readouterr().out.splitlines() == [f"{file}:{line}" for line in lines]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_file_that_cannot_be_read_is_a_problem_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: list[str]
) -> None:
    """It has the same form as all others."""
    file = tmp_path / "lakewarden.yaml"
    assert main(["check-config", "--config", str(file), *as_json]) == 2
    assert "no such configuration file" in capsys.readouterr().out

    file.write_text("daemon:\n\tdrain: 1s\n")
    assert main(["check-config", "--config", str(file), *as_json]) == 2
    assert "indent with spaces, never with tabs" in capsys.readouterr().out
