"""Settings of an Iceberg table that are refused when the configuration is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from tests.support.iceberg.iceberg_look import registered


def said(service: Service, *, options: dict[str, Any] | None = None, **policy: Any) -> list[tuple[str, str]]:
    """Return the contradictions of a table with one policy."""
    settings = ICEBERG.services[service](**policy)
    table = registered("/lake/trips", **(options or {}))
    served = replace(table, policies={service: Policy(trigger=NumCommits(at_least=1), options=settings)})
    return [(found.key, found.reason) for found in ICEBERG.contradictions(served)]


@pytest.mark.parametrize("service", list(ICEBERG.services))
def test_the_defaults_go_together(service: Service) -> None:
    """This holds for every service."""
    assert said(service) == []


def test_no_snapshot_expires_while_a_writer_may_look_for_it() -> None:
    """The age is compared with the longest outage in the configuration. The table's own age is not known there."""
    (found,) = said(Service.CLEAN, max_snapshot_age="2d", options={"longest_outage": "3d"})
    assert found[0] == "services.clean.options.max_snapshot_age"
    assert "longest_outage" in found[1]
    assert said(Service.CLEAN, max_snapshot_age="3d", options={"longest_outage": "3d"}) == []
    assert said(Service.CLEAN, options={"longest_outage": "30d"}) == []


def test_readers_have_names_of_their_own() -> None:
    """A clean that would keep less than a reader needs is no contradiction: it keeps more."""
    of = [{"name": "export", "longest_lag": "30d"}, {"name": "stream", "longest_lag": "1d"}]
    assert said(Service.CLEAN, max_snapshot_age="2d", options={"readers": of}) == []
    twice = [*of, {"name": "export", "longest_lag": "2d"}]
    assert said(Service.CLEAN, options={"readers": twice}) == [("options.readers", "two readers have the name export")]


def test_no_file_counts_as_an_orphan_that_a_writer_may_yet_commit() -> None:
    """A commit under way, a writer that is away, or a checkpoint of Flink may refer to it. The error says which."""
    nobody = {"longest_outage": "0s", "flink_restores": "0s"}
    for options, age, says in [
        (nobody, "23h", "less than 1d (a younger file may belong to a commit that is under way)"),
        (nobody | {"longest_outage": "4d"}, "3d", "lower longest_outage"),
        (nobody | {"flink_restores": "7d"}, "3d", "that only its checkpoint knows"),
        ({}, "6d", "lower flink_restores"),
    ]:
        ((key, reason),) = said(Service.ORPHANS, older_than=age, options=options)
        assert key == "services.orphans.options.older_than"
        assert says in reason
        assert "Raise older_than" in reason
        assert said(Service.ORPHANS, options=options) == [], "what is not said is chosen to fit"
    assert said(Service.ORPHANS, older_than="24h", options=nobody) == []


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLUSTERING])
def test_sizes_of_a_rewrite_are_in_order(service: Service) -> None:
    """Iceberg's planner would refuse them at every run."""
    assert said(service, min_file_size="64MiB", target_file_size="128MiB", max_file_size="200MiB") == []
    keys = [key for key, _ in said(service, min_file_size="128MiB", target_file_size="128MiB", max_file_size="1MiB")]
    assert keys == [f"services.{service}.options.min_file_size", f"services.{service}.options.max_file_size"]
    assert len(said(service, min_file_size="2MiB", max_file_size="1MiB")) == 1
