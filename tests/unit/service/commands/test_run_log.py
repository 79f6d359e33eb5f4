"""`lakewarden runs log` over a daemon that is served."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewarden.client import Client
from lakewarden.executors.pool.listening import LogLine, RunLogs
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.service.commands.run import print_log
from tests.unit.service.http.conftest import ServedDaemon, make_served

__all__ = ["make_served"]


@pytest.mark.long
def test_a_log_is_followed_until_the_run_has_ended(make_served: Callable[..., ServedDaemon], tmp_path: Path) -> None:
    """Each line is printed once, also those that come after the first answer."""
    logs = RunLogs(tmp_path / "logs", each=65536, total=2**20)
    served: Any = make_served(run_logs=logs)
    for _ in range(3):
        served.lake.write()
    served.start()
    served.look()
    served.pool.hold(Service.COMPACTION, Step.EXECUTE)
    run = RunId(served.api.post("/v1/tables/trips/services/compaction/runs").json()["id"])
    line = LogLine(at="12:00", level="info", message="first", fields={"epoch": "1"})
    logs.add(run, [line])
    out, rests = io.StringIO(), list[float]()

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 1:
            logs.add(run, [replace(line, message="second")])
        elif len(rests) == 2:
            served.pool.release()
            served.moments.ending()
            logs.add(run, [replace(line, message="last")])

    client = Client(str(served.api.base_url))
    print_log(client, run, follow=True, as_json=False, out=out, rest=rest)
    assert out.getvalue().splitlines() == [
        '12:00 INFO worker: first epoch="1"',
        '12:00 INFO worker: second epoch="1"',
        '12:00 INFO worker: last epoch="1"',
    ]
    out = io.StringIO()
    print_log(client, run, follow=False, as_json=True, out=out)
    assert [json.loads(one)["number"] for one in out.getvalue().splitlines()] == [1, 2, 3]
