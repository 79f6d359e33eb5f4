"""The journal: what people read of the daemon, which nobody can make grow without end."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.reporting.event_log import MOST_A_MINUTE, EventLog

TABLE = Table(id=TableId("trips"), format="fake", location="/lake/trips")


def test_a_client_that_pauses_and_resumes_without_end_does_not_make_the_log_grow() -> None:
    """Each pause blocks every service of every table anew. What is left out of the log is told by `explain`."""
    structlog.reset_defaults()
    journal = EventLog()
    with capture_logs() as told:
        for number in range(10 * MOST_A_MINUTE):
            blocked = Blocked(reason=f"paused: {number}", remedy="resume it")
            journal.decided(TABLE, Service.CLEAN, blocked)
            journal.poll_failed(TABLE, f"reason {number}")
            journal.warned(TABLE, f"warning {number}")
    assert [line["event"] for line in told].count("blocked") == MOST_A_MINUTE
    assert len(told) == 3 * MOST_A_MINUTE
