"""A Java that is a shell script. It prints its version, and as Ivy it provides the jars of its repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.executors.worker.java import java_home

_JAVA = """#!/bin/sh
case "$*" in
    *-XshowSettings*) printf '    java.home = {home}\\n    java.specification.version = {version}\\n' >&2; exit 0 ;;
esac
echo asked >>{home}/asked
for target; do :; done # Ivy's last argument: where it puts the jar
[ -f {home}/repository.jar ] || {{ echo 'UnknownHostException: maven'; exit 1; }}
cp {home}/repository.jar "$(dirname "$target")/tiny-1.0.jar"
"""


class FakeJava:
    """A Java home of a given version, with a Maven repository that holds at most one jar."""

    def __init__(self, home: Path, version: str) -> None:
        self.home = home
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(_JAVA.format(home=home, version=version))
        java.chmod(0o755)

    def publish(self, content: bytes) -> None:
        """Put a jar into the repository."""
        (self.home / "repository.jar").write_bytes(content)

    @property
    def times_asked(self) -> int:
        """Return how often Ivy was run."""
        asked = self.home / "asked"
        return len(asked.read_text().splitlines()) if asked.exists() else 0


@pytest.fixture(autouse=True)
def _no_java_is_remembered() -> Iterator[None]:
    java_home.cache_clear()
    yield
    java_home.cache_clear()
