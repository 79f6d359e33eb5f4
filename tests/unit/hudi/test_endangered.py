"""Which writes a step of ours would fail, by service, step and table version."""

from __future__ import annotations

import pytest

from lakewarden.planners.formats.hudi.endangered import endangered_writes
from lakewarden.planners.model.instant import Service, State
from tests.support.values import NOW, a_view, an_instant

OLDER = an_instant(time="00000010", state=State.INFLIGHT, guarded_until=NOW)
PLAN = "00000050"
NEWER = an_instant(time="00000090", state=State.INFLIGHT)


@pytest.mark.parametrize(
    ("service", "step", "version", "expected"),
    [
        (Service.COMPACTION, "plan", "9", {"00000010", "00000090"}),
        (Service.COMPACTION, "execute", "9", set()),
        (Service.COMPACTION, "execute", "6", {"00000010"}),
        (Service.COMPACTION, "commit", "9", {"00000010"}),
        (Service.COMPACTION, "commit", "6", {"00000010"}),
        (Service.LOG_COMPACTION, "plan", "9", set()),
        (Service.LOG_COMPACTION, "execute", "6", set()),
        (Service.LOG_COMPACTION, "commit", "9", {"00000010", "00000090"}),
        (Service.CLUSTERING, "plan", "9", {"00000010", "00000090"}),
        (Service.CLUSTERING, "execute", "9", set()),
        (Service.CLUSTERING, "commit", "9", set()),
        (Service.TTL, "plan", "9", set()),
        (Service.TTL, "commit", "9", {"00000010", "00000090"}),
        (Service.CLEAN, "plan", "9", set()),
        (Service.CLEAN, "commit", "9", {"00000090"}),
    ],
)
def test_a_step_waits_for_the_writes_that_would_fail_by_it(
    service: Service, step: str, version: str, expected: set[str]
) -> None:
    """Each rule is one that a writer was seen, or read, to fail by."""
    view = a_view(OLDER, NEWER, version=version)

    found = endangered_writes(view, service, step=step, instant=None if step == "plan" else PLAN)

    assert {write.time for write in found} == expected
