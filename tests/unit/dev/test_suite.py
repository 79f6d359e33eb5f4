"""`./dev test` runs its parts in turn, runs what failed once more, and ends red if it fails again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import suite


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder whose `pytest` is this environment's, with two parts in it: `good` and `other`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time of a short run
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_instafail")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("good", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text("def test_one(): pass\n")
    return tmp_path


def _parts(*names: str) -> Sequence[suite.Part]:
    return [suite.Part(name=name, tests=(name,)) for name in names]


def _write(root: Path, body: str) -> None:
    (root / "good" / "test_good.py").write_text(body)


_FAILS_ONCE = """
from pathlib import Path
def test_one():
    again = Path(__file__).with_name("again").exists()
    Path(__file__).with_name("again").touch()
    assert again
"""


def test_passed_parts_are_green_and_leave_their_junit(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each part says how long it took."""
    assert suite.Suite(root).run(_parts("good", "other")) == 0
    said = capfd.readouterr().out
    assert "suite: good passed after" in said
    assert "suite: good, other: green; 0 flaky" in said
    assert sorted(file.name for file in (root / ".dev" / "tests").glob("*.xml")) == ["good.xml", "other.xml"]


def test_a_test_that_fails_twice_is_red(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The other parts run all the same, and the name is in the last line."""
    _write(root, "def test_one(): assert False\n")
    assert suite.Suite(root).run(_parts("good", "other")) == 1
    said = capfd.readouterr().out
    assert "suite: other passed after" in said
    assert "suite: good, other: RED: good/test_good.py::test_one" in said


def test_a_test_that_passes_alone_is_named_as_flaky(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The suite is green then, and counts it."""
    _write(root, _FAILS_ONCE)
    assert suite.Suite(root).run(_parts("good", "other")) == 0
    said = capfd.readouterr().out
    assert "suite: flaky: good/test_good.py::test_one\n" in said
    assert "suite: good, other: green; 1 flaky" in said


def test_a_flaky_test_hides_no_other_one(root: Path) -> None:
    """If one of those that are run again fails, the suite is red."""
    _write(root, f"{_FAILS_ONCE}\ndef test_two(): assert False\n")
    assert suite.Suite(root).run(_parts("good")) == 1


def test_many_failed_tests_are_not_run_again(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """They are a fault, and the machine is not to blame."""
    _write(
        root,
        "import pytest\n"
        f"@pytest.mark.parametrize('n', range({suite.MOST_RETRIED + 1}))\n"
        "def test_one(n): assert False\n",
    )
    assert suite.Suite(root).run(_parts("good")) == 1
    assert "again begins" not in capfd.readouterr().out


@pytest.mark.parametrize("body", ["import nothing_of_this_name\n", "", "import os\ndef test_one(): os._exit(1)\n"])
def test_a_part_that_could_not_run_is_red(root: Path, body: str) -> None:
    """A file that cannot be imported, a folder without a test, a dead process: none of them is a failed test."""
    _write(root, body)
    assert suite.Suite(root).run(_parts("good", "other")) == 1


def test_a_failed_command_is_red_and_a_failed_lint_ends_it(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the lint finds is mended in less time than the tests take."""
    failing = [suite.Part(name=name, command=("false",)) for name in ("chart", "lint")]
    assert suite.Suite(root).run([failing[0], *_parts("good")]) == 1
    assert "good passed" in capfd.readouterr().out
    assert suite.Suite(root).run([failing[1], *_parts("good")]) == 1
    assert "good begins" not in capfd.readouterr().out


def test_a_part_that_does_not_exist_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The parts that exist are listed."""
    assert suite.main(["--all", "icberg"]) == 2
    assert "there is no part icberg: choose from lint, unit," in capfd.readouterr().out


def test_everything_is_every_test_once() -> None:
    """No file of tests is left out, and none runs in two parts."""
    parts = suite.everything()
    for file in (path.relative_to(suite.ROOT) for path in (suite.ROOT / "tests").rglob("test_*.py")):
        above = {str(folder) for folder in file.parents}
        of_the_chart = not above.isdisjoint({"tests/chart", "tests/integration/chart"})
        assert sum(not above.isdisjoint(part.tests) for part in parts) == (0 if of_the_chart else 1), file
