"""The chart's files agree with the daemon's settings."""

from __future__ import annotations

import json

import yaml

import lakewarden
from helm.schema import OWNED, SCHEMA, definitions
from lakewarden.service.config.settings import Configuration
from tests.support.helm.chart import CHART

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_schema_knows_the_settings_of_the_daemon() -> None:
    """After a setting was added or renamed, `python -m helm.schema` tells the chart."""
    assert json.loads(SCHEMA.read_text())["$defs"]["daemon"] == definitions()


def test_what_the_chart_owns_is_a_setting() -> None:
    """If a setting were renamed, the values could set its new name, and the chart's own setting would be refused."""
    groups = Configuration.model_json_schema()
    known = {**groups["$defs"], "Configuration": groups}

    assert all(key in known[group]["properties"] for group, keys in OWNED.items() for key in keys)


def test_the_chart_installs_the_version_that_it_lies_beside() -> None:
    """Without a tag in the values the image of exactly this version runs."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == lakewarden.__version__
    assert VALUES["image"]["tag"] == ""


def test_every_value_is_described() -> None:
    """The table of the chart's README has each value with its default."""
    lines = (CHART / "README.md").read_text().splitlines()
    described = {line.split("`")[1]: line for line in lines if line.startswith("| `")}

    found = dict(_leaves(VALUES))

    assert set(described) == set(found)
    assert [key for key, value in found.items() if f"| `{json.dumps(value)}` |" not in described[key]] == []


def _leaves(values: object, at: str = "") -> list[tuple[str, object]]:
    """Return every value by its path. An empty group and what Kubernetes defines count as values themselves."""
    if not isinstance(values, dict) or not values or at == "resources" or at.endswith(("ecurityContext", "Probe")):
        return [(at, values)]
    return [leaf for key, value in values.items() for leaf in _leaves(value, f"{at}.{key}" if at else key)]
