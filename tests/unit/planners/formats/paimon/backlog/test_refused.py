"""The services that are not run on Paimon tables are named with their reason."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.formats.paimon.backlog.needs import REFUSED
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import TimeElapsed
from tests.support.paimon.paimon_table import PaimonTable


def decision_on(table: PaimonTable, service: Service, *, asked: bool = False) -> object:
    policy = Policy(trigger=TimeElapsed(at_least=timedelta(days=1)), options=PAIMON.services[service]())
    policies = {service: policy}
    known = Table(id=TableId("trips"), format="paimon", location=str(table.folder), policies=policies)
    now = table.clock.now()
    view = PAIMON.observe(known, LocalStorage(), None, now=now).view
    state = ServiceState(mode=Mode.ACT)
    return decide(service=service, view=view, policy=policy, service_state=state, now=now, asked=asked)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("service", sorted(REFUSED))
def test_a_service_that_is_not_run_is_blocked_with_its_reason_and_remedy(
    tmp_path: Path, service: Service, asked: bool
) -> None:
    """Also if an operator asks for it."""
    table = PaimonTable(tmp_path / "t")
    table.append()
    found = decision_on(table, service, asked=asked)
    assert isinstance(found, Blocked)
    assert "Lakewarden" in found.reason
    assert found.remedy is not None
    assert "remove the service" in found.remedy


def test_a_table_that_asks_for_no_such_service_is_not_told_of_it(tmp_path: Path) -> None:
    """Its blockers are its own."""
    table = PaimonTable(tmp_path / "t")
    table.append()
    known = Table(id=TableId("trips"), format="paimon", location=str(table.folder))
    assert PAIMON.observe(known, LocalStorage(), None, now=table.clock.now()).view.blockers == ()
