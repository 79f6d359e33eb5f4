"""The trial of every format is complete, and the daemon accepts its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from faults.formats.registry import TRIALS
from faults.formats.trial import FormatTrial
from faults.trials.trial_setup import SPARK
from lakewarden.demo.daemon import merged
from lakewarden.demo.environment import Environment
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load


@pytest.fixture(params=sorted(TRIALS))
def trial(request: pytest.FixtureRequest) -> FormatTrial:
    """Return the trial of a format."""
    return TRIALS[request.param]()


def test_the_table_is_one_that_the_daemon_takes(trial: FormatTrial, tmp_path: Path) -> None:
    """The entry has its services and its options, before there is a table. A setting of the trial takes none of the
    format's own away.
    """
    environment = Environment(tmp_path, trial.format_demo)
    if trial.format_demo.format == "hudi":  # its own entry waits for a ZooKeeper
        entry = dict(trial.format_demo.entry(environment.table, lambda: "127.0.0.1:2181"))
    else:
        entry = dict(trial.table_entry(environment, lambda true, otherwise: None))
    own = trial.format_demo.settings(tmp_path)
    workers = {"default": {"formats": [trial.format_demo.format]}}
    whole = merged(merged(own, {"spark": SPARK}), {"spark": workers})
    whole["tables"] = [{"id": "orders", "mode": "act", **entry, "services": dict(trial.policies)}]
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(whole))

    loaded = load(tmp_path / "lakewarden.yaml")

    [table] = loaded.tables
    assert {service.value for service in table.policies} == set(trial.policies)
    assert loaded.settings.spark["default"].memory == SPARK["default"]["memory"]
    for key, value in own.get("spark", {}).get("default", {}).get("conf", {}).items():
        assert loaded.settings.spark["default"].conf[key] == value


def test_every_service_that_is_hit_has_a_policy_and_every_point_services_that_pass_it(trial: FormatTrial) -> None:
    """Its runs come by themselves. The services that alone pass a point are hit."""
    targets = trial.targets
    assert {service.value for service in targets.services} == set(trial.policies)
    assert set(targets.services) <= set(FORMATS[trial.format_demo.format].services)
    assert set(targets.passed_by) <= set(targets.points)
    assert all(set(services) <= set(targets.services) for services in targets.passed_by.values())


def test_before_there_is_a_table_nothing_is_pending_and_nothing_is_left_over(
    trial: FormatTrial, tmp_path: Path
) -> None:
    """The daemon is started first."""
    environment = Environment(tmp_path, trial.format_demo)
    trial.make_work(environment)
    assert not trial.pending(environment)
    assert not trial.left_over(environment)
