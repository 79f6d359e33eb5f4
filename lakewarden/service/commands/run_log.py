"""`lakewarden runs log`: it prints the log of a run, and follows it until the run has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TextIO

from lakewarden.client import Client
from lakewarden.client.bodies import LogLineBody
from lakewarden.executors.pool.run_logs import LogLine
from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.service.reporting.run_log import written_out

_AGAIN_SECONDS = 1.0
_PAGE = 1000


def print_log(
    client: Client,
    run: str,
    *,
    follow: bool,
    as_json: bool,
    out: TextIO,
    rest: Callable[[float], None] = time.sleep,
) -> None:
    """Print the lines of a run. With `follow`, print new lines until the run has ended. Raises ClientError."""
    last = 0
    while True:
        over = not follow or client.run(run)["ended_at"] is not None  # asked before the lines, so that none is missed
        while True:
            page = client.run_log(run, after=last, limit=_PAGE)
            _print(page["items"], after=last, as_json=as_json, out=out)
            last = page["items"][-1]["number"] if page["items"] else last
            if page["next"] is None:
                break
        if over:
            return
        rest(_AGAIN_SECONDS)


def _print(items: list[LogLineBody], *, after: int, as_json: bool, out: TextIO) -> None:
    if as_json:
        for one in items:
            print(json.dumps(printable_values(one)), file=out)
    else:
        for line in written_out([LogLine(**one) for one in items], after=after):
            print(printable(line, most=100_000, lines=True), file=out)
    out.flush()
