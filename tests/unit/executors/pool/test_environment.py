"""The environment that a worker and its JVM inherit from the daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakewarden.executors.pool.process import _environment


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1"])
def test_names_of_files_are_utf_8_whatever_locale_the_daemon_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locale: str
) -> None:
    """A JVM in another locale finds no file with a letter beyond ASCII in its path, and takes it for deleted."""
    monkeypatch.setenv("LC_ALL", locale)
    script = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.nl_langinfo(locale.CODESET))"
    asked = [sys.executable, "-X", "utf8=0", "-c", script]
    told = subprocess.run(asked, env=_environment(tmp_path, "mark"), capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "UTF-8"
