"""The report as JSON, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lakewarden.planners.model.printable import printable_values
from lakewarden.planners.surveying.contents import Amount
from lakewarden.service.commands.report.cost import BYTES_A_CORE_SECOND, DELETIONS_A_CORE_SECOND, RUN_CORE_SECONDS
from lakewarden.service.commands.report.lines import LakeReport, TableLine
from lakewarden.service.commands.report.totals import total_of


def document_of(report: LakeReport) -> str:
    """Return the JSON. Sizes are in bytes, times in RFC 3339. A figure that was not compared is null."""
    document = {
        "at": report.at,
        "places": list(report.places),
        "total": _amounts(asdict(total_of(report.tables))),
        "tables": [_table(one) for one in report.tables],
        "unread": [asdict(one) for one in report.unread],
        "assumed": {
            "core_seconds_of_a_run": RUN_CORE_SECONDS,
            "bytes_rewritten_in_a_core_second": BYTES_A_CORE_SECOND,
            "files_deleted_in_a_core_second": DELETIONS_A_CORE_SECOND,
        },
    }
    return json.dumps(printable_values(document), indent=2)


def _table(line: TableLine) -> dict[str, Any]:
    found: dict[str, Any] = _amounts(asdict(line))
    for service, of in zip(found["services"], line.services, strict=True):
        service["files_fewer"] = of.fewer
    return {**found, "read_files": line.read_files, "kept": line.kept._asdict(), "files_fewer": line.fewer}


def _amounts(value: Any) -> Any:
    """Return a value with each amount as an object. As a tuple it would be a list without names."""
    if isinstance(value, Amount):
        return value._asdict()
    if isinstance(value, dict):
        return {key: _amounts(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_amounts(one) for one in value]
    return value
