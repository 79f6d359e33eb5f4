"""What an operator does about a file of the timeline that broke off. Pure.

A plan that was not begun may go between two writes: it is planned anew. One that was begun has left files, and an
archive beyond it would make them part of the table. Below table version 8 a log file bears the time of a plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakewarden.planners.formats.hudi.metadata.names import Layout

_PLAN = re.compile(r"(\d+)\.(clean|compaction|logcompaction|clustering|replacecommit)\.requested ")
_COMPLETED = re.compile(r"\d+(_\d+)?\.(commit|deltacommit|replacecommit) ")
_WAIT = "wait a minute, because it may be being written. If it stays so, "


def mending(faults: Sequence[str], layout: Layout) -> str | None:
    """Return what to do about the first of the faults. None if there is none, or its sentence says it."""
    fault = faults[0] if faults else ""
    plan = _PLAN.match(fault)
    if plan is not None:
        return _WAIT + _of_a_plan(plan[1], plan[2], layout)
    if _COMPLETED.match(fault):
        return _WAIT + "restore it from a backup of the table. Do not delete it: the rows that it committed would go"
    return None


def _of_a_plan(time: str, action: str, layout: Layout) -> str:
    file, begun = f"{time}.{action}.requested", f"{time}.{action}.inflight"
    if action == "clean":
        return f"stop the table's writers, and delete {file}, and {begun} if it is there. The clean is planned anew"
    named = "" if layout is Layout.V2 else f" and no log file with {time} in its name"
    return (
        f"stop the table's writers. If there is no {begun}{named}, delete {file}: it is planned anew. Else restore it "
        "from a backup of the table"
    )
