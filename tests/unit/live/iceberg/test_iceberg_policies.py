"""The suite has a policy for every service of the format on Iceberg, as a configuration takes it."""

from __future__ import annotations

from pathlib import Path

import yaml

from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from live.iceberg.catalog_demo import TABLE_OPTIONS
from live.iceberg.policies import policies


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


def test_what_the_format_does_not_support_is_not_asked_for() -> None:
    """The suite grows with the format."""
    assert policies([Service.CLEAN]).keys() == {"clean"}
