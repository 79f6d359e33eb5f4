"""A scrape of a daemon with many tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lakewarden.executors.contract import WorkerEnd
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.metrics import HOOK_RESULTS, Metrics
from lakewarden.service.reporting.metrics.families import OTHER
from lakewarden.service.reporting.metrics.scrape import CHOSEN_FOR_SECONDS
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, DaemonHarness, prepare
from tests.support.store.memory_store import MemoryStore

NAMES = tuple(f"t{number}" for number in range(8))
_TYPES = re.compile(r"_(counter|gauge|histogram|summary|info)(_|$)")
_NO_BASE_UNITS = re.compile(
    r"_(milliseconds|ms|minutes|hours|days|kilobytes|kb|mib|mb|megabytes|gigabytes|gb|bits|percent|seconds_ago)(_|$)"
)


class Scraped:
    """A daemon with eight tables, and what a scrape of it says."""

    def __init__(self, folder: Path, *, table_series: int, names: Sequence[str] = NAMES) -> None:
        self.harness = DaemonHarness(folder, names=names, policies=COMPACT_AND_CLEAN)
        self.metrics = Metrics(COMPACT_AND_CLEAN, sources=["lake"], table_series=table_series)
        self.metrics.watch(self.harness.status, clock=self.harness.clock)

    def text(self) -> str:
        """Return what Prometheus gets."""
        return generate_latest(self.metrics.registry).decode()

    def tables(self, metric: str = "lakewarden_table_poll_failing") -> set[str]:
        """Return the tables that a metric names."""
        return set(re.findall(rf'^{metric}{{[^}}]*table="([^"]+)"', self.text(), re.MULTILINE))

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of one series."""
        return self.metrics.registry.get_sample_value(name, labels)


def test_tables_beyond_the_limit_are_summed_up(tmp_path: Path) -> None:
    """A scrape has a bounded number of series, and loses no count."""
    texts = []
    for table_series in (3, len(NAMES)):
        scraped = Scraped(tmp_path / str(table_series), table_series=table_series)
        scraped.harness.write(2, TableId("t6"))
        scraped.harness.for_a_while()
        text = scraped.text()
        found = re.findall(r'^lakewarden_table_commits_since{service="clean",table="[^"]+"} (\S+)$', text, re.MULTILINE)

        assert len(scraped.tables()) == min(table_series + 1, len(NAMES))
        assert sum(map(float, found)) == 2
        assert scraped.value("lakewarden_backlog_commits", service="clean", format="fake") == 2
        texts.append(text)
    assert len(texts[0]) < len(texts[1])


def test_a_table_that_needs_an_operator_gets_series_of_its_own(tmp_path: Path) -> None:
    """The choice is made anew after a minute. Until then the table is a part of `_other`."""
    scraped = Scraped(tmp_path, table_series=2)
    scraped.harness.for_a_while()
    assert scraped.tables() == {"t0", "t1", OTHER}

    scraped.harness.status.commands.pause(TableId("t7"), reason="a test")
    scraped.harness.turn()
    scraped.harness.turn()
    assert scraped.value("lakewarden_table_service_blocked", table=OTHER, service="clean") == 1
    scraped.harness.clock.advance(timedelta(seconds=CHOSEN_FOR_SECONDS))

    assert scraped.value("lakewarden_table_service_blocked", table="t7", service="clean") == 1
    assert scraped.value("lakewarden_table_service_blocked", table=OTHER, service="clean") == 0
    assert scraped.value("lakewarden_table_services", service="clean", format="fake", decision="Blocked") == 1


def test_every_series_of_the_fleet_is_there_from_the_start(tmp_path: Path) -> None:
    """Before the first observation, an alert on the fleet finds each of its series, with nothing in it."""
    scraped = Scraped(tmp_path, table_series=2)

    for service in COMPACT_AND_CLEAN:
        where = {"service": service.value, "format": "fake"}
        for name in ("backlog_commits", "backlog_bytes", "oldest_pending_age_seconds"):
            assert scraped.value(f"lakewarden_{name}", **where) == 0
        assert scraped.value("lakewarden_table_services", decision="Undecided", **where) == len(NAMES)
        assert scraped.value("lakewarden_oldest_queued_run_age_seconds", service=service.value) == 0
        assert scraped.value("lakewarden_active_runs", service=service.value, run_state="queued") == 0
        for outcome in ("succeeded", "failed", "cancelled"):
            assert scraped.value("lakewarden_runs_total", service=service.value, outcome=outcome) == 0
        for counted in ("rewritten_bytes", "removed_bytes"):
            assert scraped.value(f"lakewarden_{counted}_total", service=service.value) == 0
        for measured in ("queue_wait_seconds", "lock_hold_seconds", "run_duration_seconds"):
            assert scraped.value(f"lakewarden_{measured}_count", service=service.value) == 0
    for result in HOOK_RESULTS:
        assert scraped.value("lakewarden_hooks_total", sender="hudi", result=result) == 0
    for reason in WorkerEnd:
        assert scraped.value("lakewarden_worker_restarts_total", spark="default", reason=reason) == 0
    assert scraped.value("lakewarden_discovery_failures_total", source="lake") == 0
    assert scraped.value("lakewarden_writer_failures_total", table=OTHER, near_us="true") == 0


def test_pending_instants_have_an_age_and_runs_a_place(tmp_path: Path) -> None:
    """An alert needs the age of the oldest pending instant, the slots in use, and the wait in the queue."""
    scraped = Scraped(tmp_path, table_series=8, names=["trips"])
    prepare(scraped.harness.lake)
    scraped.harness.write(1)
    scraped.harness.until_executing(Step.EXECUTE)
    where = {"service": "compaction", "format": "fake"}

    assert scraped.value("lakewarden_table_pending_instants", table="trips", service="compaction") == 1
    first = scraped.value("lakewarden_table_first_pending_timestamp_seconds", table="trips", service="compaction")
    assert first is not None
    scraped.harness.clock.advance(timedelta(minutes=3))
    age = scraped.value("lakewarden_oldest_pending_age_seconds", **where)
    assert age == pytest.approx(scraped.harness.clock.now().timestamp() - first)
    assert age is not None
    assert age >= 180
    assert scraped.value("lakewarden_active_runs", service="compaction", run_state="running") == 1
    begun = [run for run in scraped.harness.store.active() if run.state is not RunState.QUEUED]
    assert scraped.value("lakewarden_pool_slots", spark="default", state="used") == len(begun) > 0


def test_the_names_follow_the_rules_of_prometheus(tmp_path: Path) -> None:
    """Metrics of Lakewarden have one prefix, base units, `_total` for counters and for nothing else, and a help text.
    A parser reads the whole text.
    """
    scraped = Scraped(tmp_path, table_series=2)
    scraped.harness.for_a_while()
    every = list(text_string_to_metric_families(scraped.text()))
    families = [family for family in every if not family.name.startswith("process_")]  # the client library names them
    assert len(families) > 40
    wrong = []
    for family in families:
        counter = family.type == "counter"
        samples = {sample.name for sample in family.samples}
        labels = {label for sample in family.samples for label in sample.labels}
        if not (
            re.fullmatch(r"lakewarden_[a-z][a-z0-9_]*", family.name)
            and family.documentation.endswith(".")
            and not _TYPES.search(family.name.removesuffix("_info"))
            and not _NO_BASE_UNITS.search(family.name)
            and all(name.endswith("_total") == counter for name in samples)
            and (family.type == "histogram" or not any(re.search(r"_(count|sum|bucket)$", name) for name in samples))
            and all(re.fullmatch(r"[a-z][a-z_]*", label) for label in labels)
        ):
            wrong.append(family.name)
    assert wrong == []
    assert len({family.name for family in families}) == len(families)


class AwayStore(MemoryStore):
    """A store that answers no question about pauses while it is away."""

    away = False

    def pauses(self) -> Mapping[TableId | None, str]:
        if self.away:
            raise TemporaryError("the store does not answer")
        return super().pauses()


def test_a_store_that_is_away_and_what_makes_a_daemon_unready_are_seen(tmp_path: Path) -> None:
    """They are the daemon's own words. An alert does not have to reckon them from errors."""
    store = AwayStore()
    harness = DaemonHarness(tmp_path, store=store)
    metrics = Metrics(COMPACT_AND_CLEAN)
    metrics.watch(harness.status, clock=harness.clock)

    def seen() -> tuple[float | None, float | None]:
        harness.for_a_while()
        value = metrics.registry.get_sample_value
        return value("lakewarden_store_available"), value("lakewarden_ready")

    assert seen() == (1, 1)
    store.away = True
    assert seen() == (0, 0)
    store.away = False
    assert seen() == (1, 1)


def test_a_service_in_quarantine_and_an_owned_tables_poll_interval_are_seen(tmp_path: Path) -> None:
    """Both are what alerts compare with."""
    scraped = Scraped(tmp_path, table_series=8, names=["trips"])
    scraped.harness.for_a_while()
    where = {"table": "trips", "service": "clean"}
    assert scraped.value("lakewarden_table_service_quarantined", **where) == 0
    assert scraped.value("lakewarden_table_poll_interval_seconds", table="trips") == 10

    scraped.harness.status._statuses._service_states.quarantine(TableId("trips"), Service.CLEAN, "a test")
    scraped.harness.for_a_while()

    assert scraped.value("lakewarden_table_service_quarantined", **where) == 1
    assert scraped.value("lakewarden_table_service_quarantined", table="trips", service="compaction") == 0


def test_the_process_of_the_daemon_has_the_metrics_that_every_dashboard_knows(tmp_path: Path) -> None:
    """They are memory, open files and processor time."""
    text = Scraped(tmp_path, table_series=2).text()
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"):
        assert re.search(rf"^{name} [0-9]", text, re.MULTILINE), name
