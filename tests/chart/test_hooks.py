"""What the hooks of the chart run: the check of a configuration, and `helm test`, each as a process of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.service.config.loading import load
from tests.support.helm.chart import NAMESPACE, POSTGRES, RELEASE, Rendered
from tests.support.helm.local_pod import LocalPod

pytestmark = pytest.mark.chart


def _checked(values: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of the Job on the configuration that it mounts."""
    rendered = Rendered(values)
    [container] = rendered.one("Job")["spec"]["template"]["spec"]["containers"]
    written = rendered.named("ConfigMap", f"{RELEASE}-check")["data"]["lakewarden.yaml"]
    assert written == rendered.config
    (folder / "lakewarden.yaml").write_text(written)
    arguments = [one.replace("/etc/lakewarden", str(folder)) for one in container["args"]]
    command = [sys.executable, "-m", "lakewarden.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_configuration_with_an_error_ends_the_upgrade_before_the_pod_is_touched(tmp_path: Path) -> None:
    """The schema of the values lets it through, because only the daemon knows the options of a table."""
    table = {"id": "t", "format": "hudi", "path": "s3://lake/t", "options": {"lock": {"provider": "zookeper"}}}

    right, wrong = _checked({}, tmp_path), _checked({"config": {"tables": [table]}}, tmp_path)

    assert right.returncode == 0, right.stdout
    assert wrong.returncode == 2
    assert "zookeper" in wrong.stdout


def test_the_check_may_write_to_the_data_folder() -> None:
    """The root of its container is read-only, and a data folder that cannot be written is an error. Without a volume
    there, no release could be installed.
    """
    rendered = Rendered()
    job = rendered.one("Job")["spec"]["template"]["spec"]
    data_dir = yaml.safe_load(rendered.config)["daemon"]["data_dir"]

    [mount] = [one for one in job["containers"][0]["volumeMounts"] if one["mountPath"] == data_dir]
    [volume] = [one for one in job["volumes"] if one["name"] == mount["name"]]

    assert not mount.get("readOnly")
    assert "emptyDir" in volume
    assert job["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_a_daemon_reaches_the_others_by_the_names_of_their_pods(tmp_path: Path) -> None:
    """The address is a name of the service that governs the StatefulSet, so the name service knows it."""
    rendered = Rendered(yaml.safe_load(POSTGRES.read_text()))
    (tmp_path / "lakewarden.yaml").write_text(rendered.config)
    service = rendered.one("StatefulSet")["spec"]["serviceName"]

    api = load(tmp_path / "lakewarden.yaml").settings.api

    assert api.peer == f"http://{socket.gethostname()}.{service}.{NAMESPACE}.svc:8080"
    assert api.url == f"http://{RELEASE}.{NAMESPACE}.svc:8080"


def test_helm_test_passes_on_a_daemon_and_fails_without_one(tmp_path: Path) -> None:
    """The daemon runs as rendered. The test pod's own program asks it."""
    rendered = Rendered()
    [container] = rendered.one("Pod")["spec"]["containers"]
    assert container["command"] == ["python", "-c"]
    pod = LocalPod(rendered, tmp_path)

    def ended() -> subprocess.CompletedProcess[str]:
        variables = {one["name"]: pod.local(one["value"]) for one in container["env"]}
        command = [sys.executable, "-c", *container["args"]]
        env = {**os.environ, **variables}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    try:
        pod.until(lambda: pod.probe("readinessProbe") == 200)
        answered = ended()
        assert answered.returncode == 0, answered.stderr
    finally:
        pod.end()
    assert ended().returncode == 1
