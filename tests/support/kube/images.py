"""What is in the image of the daemon, taken from this machine: the environment of the tests, and this checkout.

`FAKE` serves with the fake format and with light workers, so that no JVM is needed. All else is as in the image.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HOME = "/opt/lakewarden"
_ROOT = Path(__file__).parents[3]
_PYTHON = f"{HOME}/venv/bin/python"
ENVIRONMENT = {
    "PATH": f"{HOME}/venv/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": f"{HOME}/source",
    "LAKEWARDEN_CACHE": HOME,
    "LAKEWARDEN_CONFIG": "/etc/lakewarden/lakewarden.yaml",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "HOME": "/var/lib/lakewarden",
}
FOLDER = "/var/lib/lakewarden"
ENTRYPOINT = (_PYTHON, "-m", "tests.support.kube.daemon")
USER, GROUP = 185, 0


def mounts() -> list[dict[str, Any]]:
    """Return the host's programs and the environment of the tests, read-only."""
    kept = ["/usr", *(f"/{name}" for name in ("bin", "sbin", "lib", "lib64") if _is_folder(Path("/") / name))]
    kept += [path for path in ("/etc/ssl", "/etc/ld.so.cache", "/etc/localtime") if Path(path).exists()]
    placed = {path: path for path in kept}
    if not sys.base_prefix.startswith("/usr"):
        placed[str(Path(sys.base_prefix).resolve())] = sys.base_prefix
    placed[sys.prefix] = f"{HOME}/venv"
    cache = os.environ.get("LAKEWARDEN_CACHE") or Path.home() / ".cache" / "lakewarden"
    placed[str(Path(cache) / "jars")] = f"{HOME}/jars"
    for package in ("lakewarden", "tests"):
        placed[str(_ROOT / package)] = f"{HOME}/source/{package}"
    return [{"source": source, "target": target, "read_only": True} for source, target in placed.items()]


def links() -> dict[str, str]:
    """Return the links in the root of the image."""
    usual = ("bin", "sbin", "lib", "lib64")
    found = {name: os.readlink(f"/{name}") for name in usual if Path(f"/{name}").is_symlink()}  # noqa: PTH115
    return {**found, "etc/hosts": "/cluster/hosts"}


def files() -> dict[str, str]:
    """Return the files of the image."""
    return {
        "etc/passwd": f"root:x:0:0:root:/:/bin/sh\nlakewarden:x:{USER}:{GROUP}::{FOLDER}:/usr/sbin/nologin\n",
        "etc/group": "root:x:0:\n",
        "etc/nsswitch.conf": "hosts: files\n",
    }


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
