"""The suite has a policy for every service of the format on Iceberg, as a configuration takes it."""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from live.iceberg.catalog_demo import TABLE_OPTIONS
from live.iceberg.orphan_files import AGE, OrphanFiles, leave
from live.iceberg.policies import policies
from tests.support.daemon.answers import a_run_told


def test_every_service_of_the_format_is_asked_for(tmp_path: Path) -> None:
    """The options are valid in a configuration."""
    services = policies(FORMATS["iceberg"].services)
    assert services.keys() == set(FORMATS["iceberg"].services)
    table = {
        "id": "orders",
        "format": "iceberg",
        "path": str(tmp_path),
        "options": dict(TABLE_OPTIONS),
        "services": services,
    }
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump({"tables": [table]}))

    load(tmp_path / "lakewarden.yaml")
    assert policies([Service.CLEAN]).keys() == {"clean"}


# Files without a commit are old enough to be deleted. More are written as soon as the last ones are gone.


def swept(times: int) -> DemoState:
    """Return a state in which so many runs have deleted something."""
    run = a_run_told(service="orphans", outcome="completed")
    return DemoState(phase="", runs=(run,) * times)


def test_what_is_left_is_older_than_anything_that_is_spared(tmp_path: Path) -> None:
    """The minimum age of a day counts, so the files are made older."""
    for file in leave(tmp_path, number=1):
        assert time.time() - file.stat().st_mtime > AGE.total_seconds() - 60


def test_more_is_left_only_after_a_sweep_that_took_all(tmp_path: Path) -> None:
    """So every counted run has had work."""
    orphans = OrphanFiles(tmp_path, wanted=2)
    orphans.look(swept(0))
    first = orphans.lying()
    orphans.look(swept(0))
    assert orphans.lying() == first != []

    orphans.look(swept(1))
    assert orphans.lying() == first, "they are still there, whatever the run says"
    assert all(str(file) in told for file, told in zip(first, orphans.complaints(), strict=True))

    for file in first:
        file.unlink()
    orphans.look(swept(1))
    second = orphans.lying()
    assert second
    assert not set(second) & set(first)

    for file in second:
        file.unlink()
    orphans.look(swept(2))
    assert not orphans.lying()
    assert not orphans.complaints()
