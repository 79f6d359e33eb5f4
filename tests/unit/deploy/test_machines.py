"""The compose file and the systemd unit: what they mount is there, and the daemon takes the configurations."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.planners.settings import parse_duration
from lakewarden.service.config.check import check_config
from lakewarden.service.config.loading import load
from lakewarden.service.rules.shutdown import STEP_BACK

DEPLOY = Path(__file__).parents[3] / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
UNIT = (DEPLOY / "systemd" / "lakewarden.service").read_text()


def _of_unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


@pytest.mark.parametrize("kind", ["compose", "systemd"])
def test_the_daemon_takes_the_configuration(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lakewarden check-config` finds no error, with the variables that the compose file gives."""
    for name in SERVICES["lakewarden"]["environment"]:
        monkeypatch.setenv(name, "a value")
    out = io.StringIO()

    assert check_config(DEPLOY / kind / "lakewarden.yaml", as_json=False, out=out) == 0, out.getvalue()


def test_every_secret_of_the_configuration_is_given_to_the_daemon() -> None:
    """Each is a variable that compose demands, so none is written down and none is empty."""
    named = set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "compose" / "lakewarden.yaml").read_text()))
    given = SERVICES["lakewarden"]["environment"]

    assert named == set(given)
    assert set(given.values()) == {f"${{{name}:?}}" for name in given}


def test_every_file_that_compose_mounts_is_there() -> None:
    """Docker would make a folder in place of a file that is missing."""
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", ())]
    files = [mount for mount in mounts if mount.startswith(".")]

    assert len(files) >= 6
    assert [mount for mount in files if not (COMPOSE.parent / mount).is_file()] == []


def test_every_port_is_open_to_this_machine_only() -> None:
    """A trial is no service for a network."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert len(ports) >= 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_prometheus_and_grafana_find_the_daemon_the_alerts_and_the_dashboard() -> None:
    """Names and ports are those of the services."""
    folder = COMPOSE.parent
    prometheus = yaml.safe_load((folder / "prometheus.yaml").read_text())
    settings = load(folder / "lakewarden.yaml").settings
    [target] = prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    [provider] = yaml.safe_load((folder / "grafana" / "dashboards.yaml").read_text())["providers"]
    places = [mount.split(":")[1] for name in ("prometheus", "grafana") for mount in SERVICES[name]["volumes"]]

    assert target == f"lakewarden:{settings.management.port}"
    assert set(prometheus["rule_files"]) <= set(places)
    assert f"{provider['options']['path']}/lakewarden.json" in places


@pytest.mark.parametrize("kind", ["compose", "systemd"])
def test_a_daemon_is_not_killed_while_it_drains(kind: str) -> None:
    """There is time for the drain, for stepping back, and for the end of the JVMs."""
    given = SERVICES["lakewarden"]["stop_grace_period"] if kind == "compose" else _of_unit("TimeoutStopSec")[0]
    drain = load(DEPLOY / kind / "lakewarden.yaml").settings.daemon.drain

    assert parse_duration(given) >= drain + 2 * STEP_BACK


def test_the_unit_leaves_the_workers_to_the_daemon_and_the_data_in_its_folder() -> None:
    """Systemd would send SIGTERM to every JVM in the middle of its run. Only the state folder may be written."""
    data = load(DEPLOY / "systemd" / "lakewarden.yaml").data_dir

    assert _of_unit("KillMode") == ["mixed"]
    assert _of_unit("ProtectSystem") == ["strict"]
    assert data.is_relative_to(Path("/var/lib") / _of_unit("StateDirectory")[0])
    assert _of_unit("ExecStartPre")[0].replace("check-config", "serve") == _of_unit("ExecStart")[0]
