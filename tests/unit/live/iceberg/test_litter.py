"""Files that no commit knows: old enough to be swept, some more as soon as those before are gone."""

from __future__ import annotations

import time
from pathlib import Path

from lakewarden.demo.snapshot import DemoState
from live.iceberg.litter import AGE, Litter, leave
from tests.support.run_bodies import a_run_told


def swept(times: int) -> DemoState:
    """Return a scene in which so many sweeps have deleted something."""
    run = a_run_told(service="orphans", outcome="completed")
    return DemoState(act="", runs=(run,) * times)


def test_what_is_left_is_older_than_anything_that_is_spared(tmp_path: Path) -> None:
    """The floor of a day is kept, so the files are made older."""
    for file in leave(tmp_path, number=1):
        assert time.time() - file.stat().st_mtime > AGE.total_seconds() - 60


def test_more_is_left_only_after_a_sweep_that_took_all(tmp_path: Path) -> None:
    """So that every sweep that counts has had work."""
    litter = Litter(tmp_path, wanted=2)
    litter.look(swept(0))
    first = litter.lying()
    litter.look(swept(0))
    assert litter.lying() == first != []

    litter.look(swept(1))
    assert litter.lying() == first, "they are still there, whatever the run says"

    for file in first:
        file.unlink()
    litter.look(swept(1))
    second = litter.lying()
    assert second
    assert not set(second) & set(first)

    for file in second:
        file.unlink()
    litter.look(swept(2))
    assert not litter.lying()
    assert not litter.complaints()


def test_an_orphan_that_stays_is_told(tmp_path: Path) -> None:
    """By its name."""
    litter = Litter(tmp_path, wanted=1)
    litter.look(swept(0))

    assert all(str(file) in told for file, told in zip(litter.lying(), litter.complaints(), strict=True))
