"""One compaction in a session process that is started for it and ends with it: what a cron job would do.

python -m bench.one_session '{"location": ..., "options": ...}'
"""

from __future__ import annotations

import json
import sys

from lakewarden.executors.contract import Assignment, Granted, Plan, Step, Succeeded
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.programs.hudi.compaction import Compaction
from lakewarden.executors.worker.session import Session
from lakewarden.executors.worker.steps import carry_out
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage import LocalStorage


def main() -> None:
    """Start a session, compact, end."""
    told = json.loads(sys.argv[1])
    session = Session(SparkProfile())
    assignment = Assignment(
        run=RunId("alone"),
        epoch=1,
        table=TableId("alone"),
        format="hudi",
        location=told["location"],
        service=Service.COMPACTION,
        table_options=told["options"],
    )
    with session.for_run(assignment.run, assignment.location) as spark:
        outcome = carry_out(Compaction(), spark, assignment, LocalStorage(), _grant)
    session.stop()
    if not isinstance(outcome, Succeeded):
        sys.exit(str(outcome))


def _grant(_step: Step, _plan: Plan | None) -> Granted:
    return Granted()


if __name__ == "__main__":
    main()
