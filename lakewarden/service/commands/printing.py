"""Answers of the API as a terminal can show them."""

from __future__ import annotations

import json
from typing import Any

from lakewarden.client.bodies import RunBody
from lakewarden.planners.model.printable import printable


def as_written(answer: Any) -> str:
    """Return a body of the API as JSON, with the same values. Each character beyond ASCII is escaped, so no name can
    control a terminal.
    """
    return json.dumps(answer, indent=2)


def run_line(run: RunBody) -> str:
    """Return a run that was asked for, as one line."""
    return printable(f"run {run['id']} of {run['service']} on {run['table']} is {run['state']}: {run['reason']}")
