"""The alerts and the dashboard, judged by Prometheus' own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from deploy import dashboard
from tests.support.helm.chart import CHART

pytestmark = [pytest.mark.chart, pytest.mark.servers]

ALERTS = CHART / "files" / "alerts.yaml"
EXAMPLES = Path(__file__).parent / "alerts.yaml"


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def test_prometheus_takes_the_alerts() -> None:
    """Without an error, a warning or two rules with one name."""
    judged = _promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    """The examples have series beside each other of which one fires."""
    judged = _promtool("test", "rules", EXAMPLES)

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_an_alert_with_another_bound_is_found_by_its_example(tmp_path: Path) -> None:
    """This shows that the examples hold the rules: a bound of two days in place of six hours fires no alert."""
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text().replace("> 6 * 3600", "> 48 * 3600"))
    examples = yaml.safe_load(EXAMPLES.read_text()) | {"rule_files": ["alerts.yaml"]}
    (tmp_path / "examples.yaml").write_text(yaml.safe_dump(examples))

    judged = _promtool("test", "rules", tmp_path / "examples.yaml")

    assert judged.returncode == 1
    assert "LakewardenPendingInstantIsOld" in judged.stdout + judged.stderr


def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """With the values that Grafana puts in."""
    queries = [target["expr"] for panel in dashboard.dashboard()["panels"] for target in panel.get("targets", ())]
    said = [one.replace("$__rate_interval", "5m").replace("$table", ".*") for one in queries]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(said)]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))

    judged = _promtool("check", "rules", "--lint=none", tmp_path / "queries.yaml")

    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert len(rules) > 20
