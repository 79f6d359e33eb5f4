"""A run of a started daemon that stands at one point, until it is killed there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.doubles import fault_points


@contextlib.contextmanager
def held_at(
    point: str,
    service: str,
    start: Callable[[], DaemonProcess],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[DaemonProcess]:
    """Start a daemon, and wait until a run of the service stands at the point. At the end of the block the JVM of its
    worker is killed. No later run is held.
    """
    faults, told = folder / "faults.json", folder / "stands-here"
    monkeypatch.setenv(fault_points.VARIABLE, str(faults))
    faults.write_text(json.dumps([_held(point, service, told)]))
    daemon = start()
    daemon.start()
    daemon.until(told.exists)
    faults.unlink()
    yield daemon
    daemon.kill_worker_jvm()
    told.unlink()


def killed_at(
    point: str,
    service: str,
    start: Callable[[], DaemonProcess],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> DaemonProcess:
    """Return a started daemon, after the JVM of its worker was killed while a run of the service stood at the point."""
    with held_at(point, service, start, folder, monkeypatch) as daemon:
        return daemon


def _held(point: str, service: str, told: Path) -> Mapping[str, Any]:
    return {"point": point, "act": "hold", "service": service, "told": str(told)}
