"""Settings of an Iceberg table that are refused when the configuration is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from tests.support.iceberg_look import registered


def said(service: Service, *, options: dict[str, Any] | None = None, **policy: Any) -> list[tuple[str, str]]:
    """Return the contradictions of a table with one policy."""
    settings = ICEBERG.services[service](**policy)
    table = registered("/lake/trips", **(options or {}))
    served = replace(table, policies={service: Policy(trigger=NumCommits(at_least=1), options=settings)})
    return [(found.key, found.reason) for found in ICEBERG.contradictions(served)]


@pytest.mark.parametrize("service", list(ICEBERG.services))
def test_the_defaults_go_together(service: Service) -> None:
    """Of every service."""
    assert said(service) == []


def test_no_snapshot_expires_while_a_writer_may_look_for_it() -> None:
    """The age is compared with the outage that the owner named; the table's own age is not known here."""
    (found,) = said(Service.CLEAN, max_snapshot_age="2d", options={"longest_outage": "3d"})
    assert found[0] == "services.clean.options.max_snapshot_age"
    assert "longest_outage" in found[1]
    assert said(Service.CLEAN, max_snapshot_age="3d", options={"longest_outage": "3d"}) == []
    assert said(Service.CLEAN, options={"longest_outage": "30d"}) == []


def test_no_file_counts_as_an_orphan_within_a_day_or_an_outage() -> None:
    """It may belong to a commit that is under way, or to the state of a job that comes back and commits it then."""
    (young,) = said(Service.ORPHANS, older_than="23h", options={"longest_outage": "1h"})
    (away,) = said(Service.ORPHANS, options={"longest_outage": "4d"})
    assert young[0] == away[0] == "services.orphans.options.older_than"
    assert "at least 24h" in young[1]
    assert "longest_outage" in away[1]
    assert said(Service.ORPHANS, older_than="24h", options={"longest_outage": "24h"}) == []


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLUSTERING])
def test_sizes_of_a_rewrite_are_in_order(service: Service) -> None:
    """Iceberg's planner refuses others, at every run."""
    assert said(service, min_file_size="64MiB", target_file_size="128MiB", max_file_size="200MiB") == []
    keys = [key for key, _ in said(service, min_file_size="128MiB", target_file_size="128MiB", max_file_size="1MiB")]
    assert keys == [f"services.{service}.options.min_file_size", f"services.{service}.options.max_file_size"]
    assert len(said(service, min_file_size="2MiB", max_file_size="1MiB")) == 1
