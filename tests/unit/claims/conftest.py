"""Daemons that share nothing but a table, and the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.road import Road, RoadClock


class Daemons:
    """One daemon with a table, and as many more on the same table, each with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.clock = RoadClock()
        self._folder = folder
        self._living: list[Road] = []
        self.first = self._alive(Road(folder, clock=self.clock))

    @property
    def claim(self) -> Path:
        """The file beside the table."""
        return self.first.lake.folder / "claims" / "claim.json"

    def another(self) -> Road:
        """Start one more."""
        return self._alive(Road(self._folder, clock=self.clock, lakes=self.first.lakes))

    def kill(self, road: Road) -> None:
        """Let a daemon be gone, threads and all; its pool's runs never go on."""
        self._living.remove(road)

    def freeze(self, road: Road) -> Callable[[], None]:
        """Stop a daemon's threads, and return how to let them go on."""
        self._living.remove(road)
        return lambda: self._living.append(road)

    def turn(self) -> None:
        """Let every living daemon turn, and a moment pass."""
        for road in self._living:
            road.daemon.turn()
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

    def _alive(self, road: Road) -> Road:
        self._living.append(road)
        self.clock.meanwhile = self._meanwhile
        return road

    def _meanwhile(self) -> None:
        for road in self._living:
            road.keep_tenure()


@pytest.fixture
def daemons(tmp_path: Path) -> Daemons:
    return Daemons(tmp_path)
