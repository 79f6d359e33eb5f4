"""One run in a session process that is started for it and ends with it, as in a cron job.

    python -m bench.runs.one_session '{"format": ..., "location": ..., "service": ..., "table_options": ...}'

The last line of its output is the seconds that it took on a core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.measuring.cores import core_seconds, family
from lakewarden.executors.contract import Assignment, Granted, Plan, Succeeded
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId


def run_alone(assignment: Assignment, *, log: Path) -> float:
    """Execute a run in a process of its own. Returns the core-seconds of the process and its JVM.

    Raises CalledProcessError if the run does not succeed; `log` says why.
    """
    told = {
        "format": assignment.format,
        "location": assignment.location,
        "service": assignment.service,
        "table_options": assignment.table_options,
        "service_options": assignment.service_options,
    }
    command = [sys.executable, "-m", "bench.runs.one_session", json.dumps(told)]
    with log.open("ab") as errors:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, check=True).stdout
    return float(said.splitlines()[-1])


def main() -> None:
    """Start a session, execute the run, end."""
    from lakewarden.executors.profile import SparkProfile  # noqa: PLC0415 - for the process alone
    from lakewarden.executors.programs.registry import PROGRAMS  # noqa: PLC0415
    from lakewarden.executors.worker.runs import carry_out  # noqa: PLC0415
    from lakewarden.executors.worker.session import Session  # noqa: PLC0415 - imports pyspark
    from lakewarden.planners.storage import LocalStorage  # noqa: PLC0415

    told = json.loads(sys.argv[1])
    service = Service(told.pop("service"))
    assignment = Assignment(run=RunId("alone"), epoch=1, table=TableId("alone"), service=service, **told)
    session = Session(SparkProfile(formats=(assignment.format,)))
    with session.for_run(assignment.run) as spark:
        program = PROGRAMS[assignment.format].programs[service]()
        outcome = carry_out(program, spark, assignment, LocalStorage(), _grant)
    session.stop()
    if not isinstance(outcome, Succeeded):
        sys.exit(str(outcome))
    print(core_seconds(family(os.getpid())))


def _grant(_step: Step, _plan: Plan | None) -> Granted:
    return Granted()


if __name__ == "__main__":
    main()
