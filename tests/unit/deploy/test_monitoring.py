"""The alerts and the dashboard name what the daemon exports, and each alert leads to a section of the runbook."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import yaml

from deploy import dashboard
from docs import metrics
from lakewarden.executors.contract import WorkerEnd

ROOT = Path(__file__).parents[3]
ALERTS = dashboard.FILE.with_name("alerts.yaml")
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS: list[dict[str, Any]] = dashboard.dashboard()["panels"]

_NAME = re.compile(r"\blakewarden_[a-z_]+")
_MATCHER = re.compile(r"(lakewarden_[a-z_]+)\{([^}]*)\}")
_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def _expressions() -> list[str]:
    asked = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
    variables = [one["query"]["query"] for one in dashboard.dashboard()["templating"]["list"] if one["name"] == "table"]
    return [*(rule["expr"] for rule in RULES), *asked, *variables]


def _unknown(expressions: list[str]) -> list[str]:
    """Return the metrics, the labels and the values of labels that the daemon does not export."""
    exported = {metric.name: metric for metric in metrics.exported()}
    values: dict[str, list[str]] = {label: list(known) for label, known in metrics.values().items()}
    values["near_us"] = ["true", "false"]  # it has a series once there is a table
    values["reason"] += list(WorkerEnd)
    found = []
    for expression in expressions:
        for name in _NAME.findall(expression):
            family = exported.get(name) or exported.get(_HISTOGRAM.sub("", name))
            if family is None or (family.name != name and family.type != "histogram"):
                found.append(name)
        for name, matchers in _MATCHER.findall(expression):
            for label, wanted in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
                known = values.get(label, ())
                if label not in exported[name].labels:
                    found.append(f"{name}.{label}")
                elif label != "table":
                    found += [f"{name}.{label}={one}" for one in wanted.split("|") if one not in known]
    return found


def test_every_metric_of_an_alert_and_of_the_dashboard_is_exported() -> None:
    """A metric or a label that is renamed would silence an alert. So would a value that no series has."""
    assert len(_expressions()) > 40
    assert _unknown(_expressions()) == []


def test_a_metric_that_is_gone_would_be_found() -> None:
    """A name, a label and a value that do not exist are each found."""
    assert _unknown(["sum(lakewarden_gone)"]) == ["lakewarden_gone"]
    assert _unknown(['lakewarden_runs_total{colour="red"}']) == ["lakewarden_runs_total.colour"]
    assert _unknown(['lakewarden_runs_total{outcome="fail"}']) == ["lakewarden_runs_total.outcome=fail"]


def test_every_alert_leads_to_a_section_of_the_runbook() -> None:
    """Each has a severity, words for the person who is woken, and a section that says what to do."""
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 10
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        page, anchor = rule["annotations"]["runbook"].split("#")
        assert (page, anchor in anchors) == ("docs/runbook.md", True), rule["alert"]


def test_every_alert_has_an_example_that_fires() -> None:
    """`promtool` runs the examples in `./dev chart`."""
    examples = yaml.safe_load((ROOT / "tests" / "chart" / "alerts.yaml").read_text())["tests"]
    fired = {one["alertname"] for test in examples for one in test["alert_rule_test"] if one["exp_alerts"]}

    assert fired == {rule["alert"] for rule in RULES}


def test_the_dashboard_is_what_the_code_says() -> None:
    """After a panel was added or changed, `python -m deploy.dashboard` writes the file anew."""
    assert dashboard.FILE.read_text() == dashboard.text()


def test_the_alerts_and_the_dashboard_also_lie_in_deploy() -> None:
    """They are links to the files of the chart, so no copy can differ."""
    for file in (ALERTS, dashboard.FILE):
        assert (ROOT / "deploy" / file.name).resolve() == file


def test_no_panel_of_the_dashboard_lies_on_another_one() -> None:
    """Each has an id of its own, a place within the 24 columns, a data source that a user chooses, and a query."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        rows, columns = range(place["y"], place["y"] + place["h"]), range(place["x"], place["x"] + place["w"])
        own = set(itertools.product(rows, columns))
        assert max(columns) < 24
        assert not own & cells, panel["title"]
        cells |= own
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            refs = [target["refId"] for target in panel["targets"]]
            assert refs == sorted(set(refs)) != []
