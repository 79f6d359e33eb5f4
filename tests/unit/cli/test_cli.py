"""The command line: quick where nothing is run, and never a stack trace for wrong input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakewarden
from lakewarden.cli import main

HEAVY = ("pyspark", "py4j", "fastapi", "uvicorn", "sqlalchemy", "apscheduler", "pandas", "pyarrow")


def test_version_names_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, for people who report something."""
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"lakewarden {lakewarden.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["version"],
        ["inspect", "/nowhere"],
        ["explain", "orders", "--url", "http://127.0.0.1:9"],
        ["writer-options", "orders", "--config", "/nowhere"],
    ],
)
def test_a_quick_command_imports_nothing_heavy(arguments: list[str]) -> None:
    """What only the daemon and its workers need is not waited for by whoever looks at a table."""
    code = f"import sys; from lakewarden.cli import main; main({arguments!r}); print(sorted(sys.modules))"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    loaded = told.stdout.splitlines()[-1]
    assert [name for name in HEAVY if f"'{name}'" in loaded] == []


def test_a_wrong_configuration_is_refused_in_lines_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line for each problem, nothing on standard output."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("daemon: {drian: 1s}\napi: {prot: 1}")

    code = main(["serve", "--config", str(file)])

    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.splitlines() == [
        f"{file}:1: daemon.drian: there is no such key; did you mean drain?",
        f"{file}:2: api.prot: there is no such key; did you mean port?",
    ]


def test_the_configuration_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container names it once; an argument still wins."""
    monkeypatch.setenv("LAKEWARDEN_CONFIG", str(tmp_path / "named.yaml"))

    assert main(["serve"]) == main(["serve", "--config", str(tmp_path / "given.yaml")]) == 2

    said = [line.rpartition("/")[2].partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["named.yaml", "given.yaml"]


def test_inspecting_what_is_no_table_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what is missing there."""
    code = main(["inspect", str(tmp_path)])

    told = capsys.readouterr()
    assert (code, told.out, len(told.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["inspect"],
        ["explain"],
        ["writer-options", "a", "--engine", "presto"],
        ["demo", "--seconds", "0"],
        ["demo", "--seconds", "soon"],
    ],
)
def test_wrong_arguments_show_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as for every input that cannot be worked with."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: lakewarden")


def test_names_of_files_in_another_encoding_are_refused_with_the_remedy(tmp_path: Path) -> None:
    """A partition with a letter beyond ASCII in its path would not be found, and taken for deleted."""
    asked = [sys.executable, "-m", "lakewarden.cli", "inspect", str(tmp_path)]

    def told(**environment: str) -> subprocess.CompletedProcess[str]:
        whole = {**os.environ, "LC_ALL": "C", **environment}
        return subprocess.run(asked, capture_output=True, text=True, env=whole, timeout=60, check=False)

    refused = told(PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert refused.returncode == 2
    assert "names of files are ascii here" in refused.stderr
    assert "PYTHONUTF8=1" in refused.stderr
    assert "names of files" not in told().stderr


def test_whoever_stops_reading_ends_us_quietly() -> None:
    """`lakewarden inspect ... | head` shows no stack trace."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lakewarden.cli", "version"]

    told = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=True, timeout=60)

    os.close(writer)
    assert told.stderr == b""
