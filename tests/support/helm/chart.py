"""The chart as Helm renders it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "lakewarden"
FULL = CHART / "tests" / "values" / "full.yaml"
POSTGRES = CHART / "tests" / "values" / "postgres.yaml"
RELEASE = "lakewarden"
NAMESPACE = "data"


def helm(*arguments: str | Path, said: str | None = None, seconds: float = 120) -> str:
    """Return what Helm prints; `said` is its standard input. Fails with its complaint where it fails."""
    ended = subprocess.run(
        ["helm", *map(str, arguments)], input=said, capture_output=True, text=True, check=False, timeout=seconds
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Rendered:
    """The objects that a release with these values consists of."""

    def __init__(self, values: Mapping[str, Any] | None = None, *more: str | Path) -> None:
        command = ("template", RELEASE, CHART, "--namespace", NAMESPACE, "--values", "-", *more)
        self.text = helm(*command, said=json.dumps(values or {}))
        self.objects = [one for one in yaml.safe_load_all(self.text) if one]

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return every object of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str) -> dict[str, Any]:
        """Return the only object of a kind."""
        [found] = self.all(kind)
        return found

    def named(self, kind: str, name: str) -> dict[str, Any]:
        """Return the only object of a kind with a name."""
        [found] = [each for each in self.all(kind) if each["metadata"]["name"] == name]
        return found

    @property
    def config(self) -> str:
        """The file that the daemon reads."""
        return str(self.named("ConfigMap", RELEASE)["data"]["lakewarden.yaml"])

    @property
    def pod(self) -> dict[str, Any]:
        """The pod's template."""
        template: dict[str, Any] = self.one("StatefulSet")["spec"]["template"]
        return template

    @property
    def grace(self) -> int:
        """Seconds between SIGTERM and SIGKILL."""
        return int(self.pod["spec"]["terminationGracePeriodSeconds"])

    @property
    def container(self) -> dict[str, Any]:
        """The daemon's container."""
        [container] = [one for one in self.pod["spec"]["containers"] if one["name"] == "lakewarden"]
        return dict(container)

    @property
    def arguments(self) -> Sequence[str]:
        """What the container is started with."""
        return list(self.container["args"])

    def probes(self) -> Mapping[str, tuple[int, str]]:
        """Return the port and the path of each probe, by its name."""
        ports = {port["name"]: int(port["containerPort"]) for port in self.container["ports"]}
        asked = {name: probe["httpGet"] for name, probe in self.container.items() if name.endswith("Probe")}
        return {name: (ports[one["port"]], str(one["path"])) for name, one in asked.items()}
