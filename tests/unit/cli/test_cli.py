"""The command line is quick if it runs nothing, and shows no stack trace for wrong input."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import lakewarden
from lakewarden.cli import main
from lakewarden.cli.commands import SERVER

HEAVY = (*SERVER, "py4j", "pandas")

_ROOT = Path(__file__).parents[3]
_NO_DAEMON = ["--url", "http://127.0.0.1:9"]


@pytest.mark.parametrize("asked", ["version", "--version"])
def test_version_names_the_version(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, for bug reports."""
    assert main([asked]) == 0
    assert capsys.readouterr().out == f"lakewarden {lakewarden.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["version"],
        ["--help"],
        ["tables", "--help"],
        ["tables", *_NO_DAEMON],
        ["status", *_NO_DAEMON],
        ["explain", "orders", *_NO_DAEMON],
        ["trigger", "orders", "clean", *_NO_DAEMON],
        ["policies", "orders", *_NO_DAEMON],
        ["approvals", *_NO_DAEMON],
        ["writer-options", "orders", "--config", "/nowhere"],
        ["check-config", str(_ROOT / "config.example.yaml")],
    ],
)
def test_a_quick_command_imports_nothing_heavy(arguments: list[str]) -> None:
    """A command that only reads a table does not wait for the modules of the daemon and its workers."""
    code = f"import sys; from lakewarden.cli import main; main({arguments!r}); print(sorted(sys.modules))"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    loaded = told.stdout.splitlines()[-1]
    assert [name for name in HEAVY if f"'{name}'" in loaded] == []


def test_the_commands_that_ask_a_daemon_import_nothing_of_the_extra_server() -> None:
    """`pip install .` is the command line and the client, without Spark."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server = {re.split(r"[\[=>]", needed)[0] for needed in project["optional-dependencies"]["server"]}
    brought = packages_distributions()

    assert {brought[module][0].lower().replace("_", "-") for module in SERVER} == server


_NEED_SERVER = (
    ["serve", "--config", str(_ROOT / "deploy" / "systemd" / "lakewarden.yaml")],
    ["demo"],
    ["doctor"],
    ["report", "/nowhere"],
    ["init", "/nowhere"],
    ["explain", "/nowhere"],
    ["backup", "/nowhere/backup"],
    ["restore", "/nowhere/backup"],
    ["keys", "list"],
    ["keys", "create", "ci", "--role", "viewer"],
    ["keys", "revoke", "ci"],
)


def test_without_the_server_a_command_that_needs_it_is_one_line_that_says_what_to_install() -> None:
    """No stack trace, and no report with tables that could not be read."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({SERVER!r})); from lakewarden.cli import main; "
        f"[print(int(main(arguments))) for arguments in {_NEED_SERVER!r}]"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert told.stdout == "2\n" * len(_NEED_SERVER)
    said = re.compile(r"this needs the server of Lakewarden, and \w+ is not installed: pip install '.\[server\]' in .*")
    assert [line for line in told.stderr.splitlines() if not said.fullmatch(line)] == []
    assert len(told.stderr.splitlines()) == len(_NEED_SERVER)


def test_the_list_of_commands_waits_for_no_other_room() -> None:
    """`lakewarden --help`, and the completion of a shell, answer at once."""
    code = "import sys, lakewarden.cli.app; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert not {"pydantic", "fastavro", "prometheus_client", "lakewarden.service.control"} & set(loaded.stdout.split())


def test_the_configuration_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container sets the variable once. An argument counts before it."""
    monkeypatch.setenv("LAKEWARDEN_CONFIG", str(tmp_path / "named.yaml"))

    assert main(["serve"]) == main(["serve", "--config", str(tmp_path / "given.yaml")]) == 2

    said = [line.rpartition("/")[2].partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["named.yaml", "given.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["explain"],
        ["writer-options"],
        ["demo", "--seconds", "0"],
        ["demo", "--seconds", "soon"],
    ],
)
def test_wrong_arguments_show_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, as for every unusable input."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("Usage: lakewarden")


def test_a_wrong_choice_is_told_without_the_words_of_a_library(capsys: pytest.CaptureFixture[str]) -> None:
    """The value, and what it may be."""
    assert main(["tables", "--only", "bogus"]) == 2
    assert "Invalid value for '--only': 'bogus' is not one of" in capsys.readouterr().err


def test_names_of_files_in_another_encoding_are_refused_with_the_remedy(tmp_path: Path) -> None:
    """Otherwise a partition with a letter beyond ASCII in its path would not be found, and taken for deleted."""
    asked = [sys.executable, "-m", "lakewarden.cli", "explain", str(tmp_path)]

    def told(**environment: str) -> subprocess.CompletedProcess[str]:
        whole = {**os.environ, "LC_ALL": "C", **environment}
        return subprocess.run(asked, capture_output=True, text=True, env=whole, timeout=60, check=False)

    refused = told(PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert refused.returncode == 2
    assert "file names are ascii here" in refused.stderr
    assert "PYTHONUTF8=1" in refused.stderr
    assert "file names are" not in told().stderr


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    """`lakewarden explain ... | head` shows no stack trace."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lakewarden.cli", "version"]

    told = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=True, timeout=60)

    os.close(writer)
    assert told.stderr == b""


@pytest.mark.parametrize("shell", ["> /dev/full", ">&-"])
def test_an_output_that_cannot_be_written_is_one_line_and_exit_code_2(shell: str) -> None:
    """A full disk, or a closed output, shows no stack trace."""
    asked = f"{shlex.quote(sys.executable)} -m lakewarden.cli version {shell}"

    told = subprocess.run(asked, shell=True, capture_output=True, text=True, timeout=60, check=False)

    assert told.returncode == 2
    assert "output" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_an_argument_that_is_not_utf_8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """No id can be sent that way, and no message could show it."""
    assert main(["explain", "--", "\udcff\udcfe"]) == 2
    assert "UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("both", [*itertools.combinations(("--dry-run", "--rewrite-all", "--end-rewrite"), 2)])
def test_a_rewrite_is_begun_or_withdrawn_and_neither_is_a_dry_run(
    both: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be begun or withdrawn, although `--dry-run` asks for no act."""
    assert main(["trigger", "trips", "clean", *both, "--url", "http://127.0.0.1:9"]) == 2
    assert "--end-rewrite" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "offered"), [("tables ", "show"), ("tables sh", "show"), ("runs c", "cancel")])
def test_a_shell_completes_the_names_of_commands(words: str, offered: str) -> None:
    """Also of commands that list without a name."""
    asked = {**os.environ, "_LAKEWARDEN_COMPLETE": "complete_bash", "COMP_WORDS": f"lakewarden {words}"}
    asked["COMP_CWORD"] = str(len(f"lakewarden {words}".split(" ")) - 1)
    code = "import sys; from lakewarden.cli import main; sys.exit(main([]))"

    told = subprocess.run(
        [sys.executable, "-c", code], env=asked, capture_output=True, text=True, timeout=60, check=False
    )

    assert offered in told.stdout.split()
