"""The dashboard for Grafana: `python -m deploy.dashboard` writes it into the chart, which can install it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.panels import ROWS, Panel

FILE = Path(__file__).parents[1] / "helm" / "lakewarden" / "files" / "dashboard.json"

_WIDTH = 24
"""The columns of a dashboard of Grafana."""

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """Return the model of the dashboard."""
    return {
        "uid": "lakewarden",
        "title": "Lakewarden",
        "description": "Written by python -m deploy.dashboard. Do not edit.",
        "tags": ["lakehouse"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "table",
                    "label": "Table",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": {
                        "query": "label_values(lakewarden_table_poll_failing, table)",
                        "refId": "table",
                    },
                    "includeAll": True,
                    "allValue": ".*",
                    "multi": True,
                    "refresh": 2,
                    "sort": 1,
                },
            ]
        },
        "annotations": {"list": []},
        "panels": list(_placed()),
    }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _placed() -> Iterator[dict[str, Any]]:
    """Yield each row and each panel with its place: from the left to the right, and then below."""
    number, top = 0, 0
    for row in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        left = 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                left, top = 0, top + panel.height
            number += 1
            yield _model(panel, number, {"x": left, "y": top, "w": panel.width, "h": panel.height})
            left += panel.width
        top += row.panels[-1].height


def _model(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
