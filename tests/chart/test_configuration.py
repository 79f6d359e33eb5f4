"""The settings in the values reach the daemon unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lakewarden.planners.model.table import Table
from lakewarden.planners.storage.settings import S3Store
from lakewarden.service.config.access import Authentication
from lakewarden.service.config.loading import Config, load
from lakewarden.service.rules.shutdown import STEP_BACK
from tests.support.helm.chart import FULL, ROOT, Rendered

pytestmark = pytest.mark.chart

EXAMPLE = ROOT / "tests" / "fixtures" / "every_setting.yaml"
OWNED = {
    "access": ("authentication",),
    "daemon": ("data_dir", "drain"),
    "api": ("host", "port"),
    "management": ("host", "port"),
}


def _loaded(rendered: Rendered, folder: Path) -> Config:
    (folder / "lakewarden.yaml").write_text(rendered.config)
    return load(folder / "lakewarden.yaml")


def _without_places(config: Config) -> Sequence[Table]:
    """Return the tables without the file and the lines that their settings come from."""
    return [replace(table, sources={}, file="", line=None) for table in config.tables]


def test_every_setting_of_the_example_arrives_unchanged(tmp_path: Path) -> None:
    """The values can express everything in the example: tables, stores, catalogs, and every number and text."""
    values = yaml.safe_load(EXAMPLE.read_text())
    for group, keys in OWNED.items():
        for key in keys:
            del values[group][key]
    del values["management"]

    enough = {"limits": {"memory": "8Gi"}}  # for the profiles of the example
    found, written = _loaded(Rendered({"config": values, "resources": enough}), tmp_path), load(EXAMPLE)

    assert _without_places(found) == _without_places(written)
    assert {"access", "daemon", "api", "management"} == {
        group for group, value in found.settings if value != getattr(written.settings, group)
    }


@pytest.mark.parametrize("config", sorted((ROOT / "deploy" / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_lies_there_to_be_copied_may_stand_in_the_values(config: Path, tmp_path: Path) -> None:
    """The same file serves a daemon on a machine and one in a pod. Its writers reach both at the same address."""
    values = yaml.safe_load(config.read_text())
    found = _loaded(Rendered({"config": values}), tmp_path)
    unsaid = _loaded(Rendered(), tmp_path)

    assert _without_places(found) == _without_places(load(config))
    assert found.settings.api.url == unsaid.settings.api.url


def test_the_values_of_the_page_connect_a_table(tmp_path: Path) -> None:
    """The example in docs/kubernetes.md is accepted, and every secret that the configuration names is there."""
    [written] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "kubernetes.md").read_text(), re.DOTALL)
    values = yaml.safe_load(written)
    config = _loaded(Rendered(values), tmp_path)
    [store] = config.settings.storage

    assert [table.id for table in config.tables] == ["sales.orders"]
    assert isinstance(store, S3Store)
    assert {secret.env for secret in (store.access_key, store.secret_key) if secret} == set(values["secrets"]["env"])


def test_the_scrape_configuration_finds_the_pods() -> None:
    """It asks the name service for the pods of the management service, at the port of the metrics."""
    [job] = yaml.safe_load((ROOT / "deploy" / "prometheus.yaml").read_text())["scrape_configs"]
    [asked] = job["dns_sd_configs"]
    service = next(one for one in Rendered().all("Service") if "management" in one["metadata"]["name"])

    assert asked["names"] == [f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"]
    assert asked["port"] == service["spec"]["ports"][0]["port"]
    assert service["spec"]["clusterIP"] == "None"


def test_the_daemon_obeys_what_the_chart_sets_for_it(tmp_path: Path) -> None:
    """The data is on the volume, the servers use the ports of the services, and writers get the address of the API's
    service.
    """
    rendered = Rendered()
    settings = _loaded(rendered, tmp_path).settings
    ports = {port["name"]: port["containerPort"] for port in rendered.container["ports"]}

    assert str(settings.daemon.data_dir) == "/var/lib/lakewarden"
    assert (settings.api.host, settings.api.port) == ("0.0.0.0", ports["api"])
    assert (settings.management.host, settings.management.port) == ("0.0.0.0", ports["management"])
    assert settings.api.url == "http://lakewarden.data.svc:8080"
    assert settings.access.authentication is Authentication.KEYS


@pytest.mark.parametrize("seconds", [0, 60, 3600])
def test_the_pod_outlives_the_drain_and_the_stepping_back(seconds: int, tmp_path: Path) -> None:
    """One value sets both. The kubelet does not kill a daemon that is still draining."""
    rendered = Rendered({"drainSeconds": seconds})
    settings = _loaded(rendered, tmp_path).settings

    assert settings.daemon.drain.total_seconds() == seconds
    assert rendered.grace >= seconds + 2 * STEP_BACK.total_seconds()


def test_secrets_are_where_the_settings_look_for_them(tmp_path: Path) -> None:
    """A secret is a variable with its name, or a file below the folder of secrets. None is in the configuration."""
    rendered = Rendered(yaml.safe_load(FULL.read_text()), "--api-versions", "monitoring.coreos.com/v1")
    settings = _loaded(rendered, tmp_path).settings
    [store] = settings.storage
    variables = {one["name"]: one.get("valueFrom") for one in rendered.container["env"]}
    folders = {one["name"]: one["mountPath"] for one in rendered.container["volumeMounts"]}
    [secrets] = [one["projected"] for one in rendered.pod["spec"]["volumes"] if one["name"] == "secrets"]
    files = [f"{folders['secrets']}/{item['path']}" for one in secrets["sources"] for item in one["secret"]["items"]]

    assert isinstance(store, S3Store)
    assert store.access_key is not None
    assert store.secret_key is not None
    assert store.access_key.env is not None
    assert variables[store.access_key.env] == {"secretKeyRef": {"name": "lake", "key": "access"}}
    [key] = settings.access.keys
    assert {str(key.key.file), str(store.secret_key.file)} == set(files)
