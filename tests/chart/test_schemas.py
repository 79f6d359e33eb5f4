"""What is rendered is what Kubernetes' own schemas describe."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart import FULL, ROOT, Rendered

pytestmark = pytest.mark.chart

OURS = ROOT / "helm" / "schemas"
VERSIONS = ("1.27", "1.36")
"""The oldest Kubernetes that the chart is for, and the newest one whose schemas are at hand."""


def _standing_alone(schema: Any) -> Any:
    """Return a schema whose references lead to the file beside it, and that says nothing of where it was found."""
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
    """Put the schemas that come as a Python package into the form that kubeconform reads."""
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
    """With every value set, on the oldest and the newest Kubernetes, without a field that it does not know."""
    full = yaml.safe_load(FULL.read_text())
    judged = _judged(Rendered(full, "--api-versions", "monitoring.coreos.com/v1").text, schemas, version)

    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "Valid: 6, Invalid: 0, Errors: 0, Skipped: 0" in judged.stdout


@pytest.mark.parametrize(
    ("right", "wrong"), [("serviceName:", "serviceNam:"), ("periodSeconds: 10", "periodSeconds: ten")]
)
def test_a_field_that_is_wrong_is_found(schemas: Path, right: str, wrong: str) -> None:
    """The schemas are read at all: a name with a letter missing and a word for a number are both refused."""
    rendered = Rendered().text
    assert right in rendered

    judged = _judged(rendered.replace(right, wrong), schemas, VERSIONS[-1])

    assert judged.returncode == 1
    assert "Invalid: 1, Errors: 0" in judged.stdout
