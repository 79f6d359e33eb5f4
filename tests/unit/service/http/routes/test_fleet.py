"""All tables together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.decision import Blocked, Due
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.routes.fleet import summary
from tests.unit.service.http.conftest import ServedDaemon

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _status(name: str, *services: Service, **known: object) -> TableStatus:
    policy = Policy(trigger=NumCommits(at_least=1))
    table = Table(
        id=TableId(name),
        format="hudi",
        location=f"/lake/{name}",
        policies=dict.fromkeys(services, policy),
        labels={"domain": name},
    )
    return TableStatus(table=table, **known)  # type: ignore[arg-type]


def test_the_summary_counts_tables_and_services() -> None:
    """By their last decisions, once each."""
    both = (Service.CLEAN, Service.COMPACTION)
    found = summary(
        [
            _status("a", *both, decisions={Service.CLEAN: Blocked(reason="x"), Service.COMPACTION: Due(reason="y")}),
            _status("b", Service.CLEAN, failure="away"),
        ],
        by=None,
        now=NOW,
    )

    assert (found.tables, found.observed, found.failing, found.blocked, found.formats) == (2, 0, 1, 1, {"hudi": 2})
    clean, compaction = found.debt
    assert (clean.service, clean.format, clean.services, clean.blocked, clean.undecided) == ("clean", "hudi", 2, 1, 1)
    assert (compaction.service, compaction.services, compaction.due) == ("compaction", 1, 1)


def test_the_debt_is_grouped_as_asked() -> None:
    """By label each table counts under each of its labels."""
    statuses = [_status("a", Service.CLEAN, Service.COMPACTION), _status("b", Service.CLEAN)]

    assert [one.services for one in summary(statuses, by="format", now=NOW).debt] == [3]
    assert [(one.service, one.services) for one in summary(statuses, by="service", now=NOW).debt] == [
        ("clean", 2),
        ("compaction", 1),
    ]
    labelled = summary(statuses, by="label", now=NOW).debt
    assert [(one.label, one.services) for one in labelled] == [("domain=a", 2), ("domain=b", 1)]


def test_the_oldest_pending_plan_is_shown_with_its_age(served: ServedDaemon) -> None:
    """And the commits that piled up since."""
    served.lake.plan_compaction()
    served.look(news=1)

    fleet = served.api.get("/v1/fleet?by=service").raise_for_status().json()

    [compaction] = [one for one in fleet["debt"] if one["service"] == "compaction"]
    assert (fleet["tables"], fleet["observed"], compaction["pending"]) == (1, 1, 1)
    assert 0 <= compaction["oldest_pending_seconds"] < timedelta(hours=1).total_seconds()
    assert served.api.get("/v1/fleet?by=x").status_code == 422
