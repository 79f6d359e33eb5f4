"""The rendered objects are valid by Kubernetes' own schemas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm.chart import FULL, POSTGRES, ROOT, Rendered

pytestmark = pytest.mark.chart

OURS = ROOT / "helm" / "schemas"
VERSIONS = ("1.27", "1.36")
"""The oldest Kubernetes that the chart supports, and the newest one with available schemas."""


def _standing_alone(schema: Any) -> Any:
    """Return a schema with references to the file beside it, and without its original address."""
    if isinstance(schema, list):
        return [_standing_alone(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.replace("/api/_definitions.json", "_definitions.json")
        if key == "$ref" and isinstance(value, str)
        else _standing_alone(value)
        for key, value in schema.items()
        if key != "$id"
    }


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the schemas of a Python package into the form that kubeconform reads."""
    [package] = (ROOT / ".dev" / "tools").glob("lib/python3*/site-packages/kubernetes_validate/kubernetes-json-schema")
    made = tmp_path_factory.mktemp("schemas")
    for version in VERSIONS:
        folder = made / f"v{version}.0-standalone-strict"
        folder.mkdir()
        for file in (package / f"v{version}.0-local-strict").glob("*.json"):
            (folder / file.name).write_text(json.dumps(_standing_alone(json.loads(file.read_text()))))
    return made


def _judged(rendered: str, schemas: Path, version: str) -> subprocess.CompletedProcess[str]:
    ours = f"{OURS}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
    command = ["kubeconform", "-strict", "-summary", "-kubernetes-version", f"{version}.0"]
    command += ["-schema-location", str(schemas), "-schema-location", ours]
    return subprocess.run(command, input=rendered, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(schemas: Path, version: str) -> None:
    """Every value is set. The objects are valid on the oldest and the newest Kubernetes, without an unknown field."""
    full = yaml.safe_load(FULL.read_text())
    instead = {"serviceMonitor": {"enabled": False}, "podMonitor": {"enabled": True}}
    for values in (
        full,
        full | instead,
        yaml.safe_load(POSTGRES.read_text()),
        {"podSecurityContext": {"runAsUser": None}},
    ):
        rendered = Rendered(values, "--api-versions", "monitoring.coreos.com/v1")
        judged = _judged(rendered.text, schemas, version)

        assert judged.returncode == 0, judged.stdout + judged.stderr
        assert f"Valid: {len(rendered.objects)}, Invalid: 0, Errors: 0, Skipped: 0" in judged.stdout


@pytest.mark.parametrize("group", ["serviceMonitor", "podMonitor", "prometheusRule"])
def test_the_kinds_of_the_operator_are_rendered_with_a_warning_where_no_cluster_was_asked(group: str) -> None:
    """`helm template` knows no cluster. With the kinds there is no warning."""
    values = {group: {"enabled": True}}
    unknown, known = Rendered(values), Rendered(values, "--api-versions", "monitoring.coreos.com/v1")

    assert "# WARNING: this cluster is not known to have monitoring.coreos.com/v1" in unknown.text
    assert "WARNING" not in known.text
    assert unknown.objects == known.objects


@pytest.mark.parametrize(
    ("right", "wrong"), [("serviceName:", "serviceNam:"), ("periodSeconds: 10", "periodSeconds: ten")]
)
def test_a_field_that_is_wrong_is_found(schemas: Path, right: str, wrong: str) -> None:
    """This shows that the schemas are read: a misspelled name and a word in place of a number are both refused."""
    rendered = Rendered().text
    assert right in rendered

    judged = _judged(rendered.replace(right, wrong), schemas, VERSIONS[-1])

    assert judged.returncode == 1
    assert "Invalid: 1, Errors: 0" in judged.stdout
