"""`./dev test` runs three streams of tests at the same time. Its exit code is that of a part that failed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_DEV = _ROOT / "dev"


def _every_test(folder: Path, which: str, pytest_does: str) -> subprocess.CompletedProcess[str]:
    """Run `every_test` with a pytest that prints its arguments and then does what the test says."""
    text = _DEV.read_text(encoding="utf-8")
    functions = [
        re.search(rf"^{name}\(\) (?:\{{.*?^\}}|\{{[^\n]*\}})$", text, re.MULTILINE | re.DOTALL)
        for name in ("say", "part", "notes_of", "beside", "again", "without", "every_test")
    ]
    (folder / ".dev").mkdir()
    stub = folder / "pytest"
    stub.write_text(f'#!/bin/sh\necho "ran ${{*%% -o cache_dir=*}}"\n{pytest_does}\n')
    stub.chmod(0o755)
    return subprocess.run(
        ["sh", "-euc", "\n".join([*(found.group() for found in functions if found), f"every_test {which}"])],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def _ran(ended: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("ran ") for line in ended.stdout.splitlines() if line.startswith("ran ")]


@pytest.mark.parametrize(
    ("which", "failing", "code"),
    [
        ("core", "nothing", 0),
        ("core", "integration", 3),
        ("core", "unit/service", 3),
        ("core", "mutations", 3),
        ("core", "contract", 3),
        ("all", "nothing", 0),
        ("all", "ignore", 3),
        ("all", "unit", 3),
        ("all", "mutations", 3),
    ],
)
def test_the_exit_code_is_that_of_the_part_that_failed(tmp_path: Path, which: str, failing: str, code: int) -> None:
    """It is 0 only if all parts passed. This holds whichever part fails, even if another one follows it."""
    ended = _every_test(tmp_path, which, f'case "$*" in *"{failing}"*) exit 3 ;; esac')

    assert ended.returncode == code, ended.stderr
    assert any(failing in part for part in _ran(ended)) == (code != 0)
    for part in _ran(ended):
        assert re.search(rf"^dev: pytest {re.escape(part)} took \d+ s$", ended.stdout + ended.stderr, re.MULTILINE)


def test_everything_is_every_test_once(tmp_path: Path) -> None:
    """The tests of the chart are left out, for `./dev chart` runs them."""
    parts = _ran(_every_test(tmp_path, "all", "exit 0"))
    for file in _files():
        within = [part for part in parts if _holds(part.split(), file)]
        assert len(within) == (0 if file.startswith("tests/chart/") else 1), file


def _files() -> set[str]:
    return {str(file.relative_to(_ROOT)) for file in (_ROOT / "tests").rglob("test_*.py")}


def _holds(part: Sequence[str], file: str) -> bool:
    within = {file, *map(str, Path(file).parents)}
    return not within.isdisjoint(part) and not any(f"--ignore={path}" in part for path in within)


def test_the_core_has_every_test_but_some_on_real_services(tmp_path: Path) -> None:
    """`./dev test` leaves out the tests on real services that are not marked, and no others. It runs none twice."""
    parts = _ran(_every_test(tmp_path, "core", "exit 0"))
    assert all("-m core" in part for part in parts if "tests/integration" in part)
    assert not any("-m core" in part for part in parts if "tests/integration" not in part)
    for file in _files():
        within = [part for part in parts if _holds(part.split(), file)]
        assert len(within) == (0 if file.startswith("tests/chart/") else 1), file


def test_an_end_by_a_signal_leaves_no_part_behind(tmp_path: Path) -> None:
    """The other streams end with the first."""
    begun, left = tmp_path / "begun", tmp_path / "left"
    waits = f'trap "echo $$ >>{left}; exit" TERM; echo $$ >>{begun}; sleep 60 & wait'
    kills = f"until [ $(cat {begun} | wc -l) = 2 ]; do sleep 0.1; done; kill -TERM $PPID"
    does = f'case "$*" in *integration*) {kills} ;; *) {waits} ;; esac'

    ended = _every_test(tmp_path, "core", does)

    assert ended.returncode == 143
    deadline = time.monotonic() + 60
    while _lines(left) != _lines(begun) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _lines(left) == _lines(begun)
    assert len(_lines(begun)) == 2


def _lines(file: Path) -> list[str]:
    return sorted(file.read_text().split()) if file.exists() else []


_NOTES = """
said="$*"
notes=${said##*cache_dir=}
mkdir -p $notes/v/cache
"""


def _fails(count: int, *, alone: int) -> str:
    """Return what a pytest does in which tests of the contracts fail, and end with `alone` when they run again."""
    names = ",".join(f'\n  "tests/contract/test_x.py::test_{number}": true' for number in range(count))
    return f"""{_NOTES}
case "$*" in
    *last-failed*) [ -e $notes/v/cache/lastfailed ] || exit 5; exit {alone} ;;
    *contract*) printf '{{{names}\n}}' >$notes/v/cache/lastfailed; exit 1 ;;
esac"""


@pytest.mark.parametrize(("alone", "code"), [(0, 0), (1, 1), (2, 1), (5, 0)])
def test_a_test_that_fails_beside_others_is_run_again_alone(tmp_path: Path, alone: int, code: int) -> None:
    """A busy machine fails no change, and a test that fails alone fails it. Their names are printed."""
    ended = _every_test(tmp_path, "all", _fails(2, alone=alone))

    assert ended.returncode == code, ended.stderr
    assert "\ntests/contract/test_x.py::test_0\ntests/contract/test_x.py::test_1\n" in ended.stderr
    assert sum("--last-failed" in part for part in _ran(ended)) >= 1


def test_many_failures_are_no_want_of_time(tmp_path: Path) -> None:
    """More than ten failed tests are not run again."""
    ended = _every_test(tmp_path, "all", _fails(11, alone=0))

    assert ended.returncode == 1
    assert not any("--last-failed" in part for part in _ran(ended))


def test_what_failed_for_another_reason_than_its_tests_is_not_run_again(tmp_path: Path) -> None:
    """A part that was interrupted or could not be collected fails the whole, whatever else failed beside it."""
    does = _fails(1, alone=0).replace("esac", "    *mutations*) exit 3 ;;\nesac")
    ended = _every_test(tmp_path, "all", does)

    assert ended.returncode == 3
    assert not any("--last-failed" in part for part in _ran(ended))


def test_a_part_that_ends_as_with_failed_tests_but_names_none_fails(tmp_path: Path) -> None:
    """Python itself ends with the same code, for example when a plugin cannot be imported."""
    ended = _every_test(tmp_path, "all", 'case "$*" in *contract*) exit 1 ;; *last-failed*) exit 5 ;; esac')

    assert ended.returncode == 3
