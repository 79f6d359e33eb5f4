"""What `lakewarden explain` says before a run, beside what the run did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from live.fleet.operator import Operator
from live.fleet.report import Ratio

_FIGURES = {
    "read_files": "files_rewritten",
    "read_bytes": "bytes_rewritten",
    "delete_files": "files_deleted",
    "seconds": "run_seconds",
}


def forecasts_of(operator: Operator, tables: Iterable[str]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return the forecast of each service of some tables."""
    found = {}
    for table in tables:
        for service, said in operator.asked("explain", table)["services"].items():
            if said.get("forecast") is not None:
                found[table, service] = said["forecast"]
    return found


def ratios(operator: Operator, forecasts: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[Ratio]:
    """Return forecast and fact of each figure that both know, of the first run that did something."""
    found: list[Ratio] = []
    seen = set()
    for run in reversed(operator.asked("runs", "--state", "SUCCEEDED", "--limit", "0")["items"]):
        key = (run["table"], run["service"])
        if key not in forecasts or key in seen or not run["figures"]:
            continue
        seen.add(key)
        done = {**run["figures"], "run_seconds": run["run_seconds"]}
        for figure, name in _FIGURES.items():
            said = forecasts[key].get(figure)
            if said is not None and done.get(name) is not None:
                found.append(Ratio(table=key[0], service=key[1], figure=figure, forecast=said, done=done[name]))
    return found
