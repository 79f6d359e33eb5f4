"""Daemons that share nothing but a table, and the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon.daemon_harness import DaemonHarness, HarnessClock


class Daemons:
    """One daemon with a table, and as many more on the same table, each with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.clock = HarnessClock()
        self._folder = folder
        self._living: list[DaemonHarness] = []
        self.first = self._alive(DaemonHarness(folder, clock=self.clock))

    @property
    def claim(self) -> Path:
        """The file beside the table."""
        return self.first.lake.folder / "claims" / "claim.json"

    def another(self) -> DaemonHarness:
        """Start one more."""
        return self._alive(DaemonHarness(self._folder, clock=self.clock, lakes=self.first.lakes))

    def kill(self, harness: DaemonHarness) -> None:
        """Let a daemon be gone, threads and all; its pool's runs never go on."""
        self._living.remove(harness)

    def freeze(self, harness: DaemonHarness) -> Callable[[], None]:
        """Stop a daemon's threads, and return how to let them go on."""
        self._living.remove(harness)
        return lambda: self._living.append(harness)

    def turn(self) -> None:
        """Let every living daemon turn, and a moment pass."""
        for harness in self._living:
            harness.daemon.turn()
        self.clock.advance(timedelta(seconds=0.5))

    def for_a_while(self, duration: timedelta) -> None:
        """Let time pass."""
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.turn()

    def until(self, happens: Callable[[], bool], *, within: timedelta = timedelta(minutes=5)) -> timedelta:
        """Turn until something has happened and return how long it took; fail if it does not."""
        begun = self.clock.now()
        while not happens():
            assert self.clock.now() - begun < within, f"not within {within}"
            self.turn()
        return self.clock.now() - begun

    def _alive(self, harness: DaemonHarness) -> DaemonHarness:
        self._living.append(harness)
        self.clock.meanwhile = self._meanwhile
        return harness

    def _meanwhile(self) -> None:
        for harness in self._living:
            harness.keep_replica_lease()


@pytest.fixture
def daemons(tmp_path: Path) -> Daemons:
    return Daemons(tmp_path)
