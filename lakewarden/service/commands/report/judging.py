"""The line of a table: its survey, judged by the policies of the report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.model.decision import Blocked, DoesNotApply, Due, NotDue, WouldRun
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table
from lakewarden.planners.model.view import Blocker, TableView
from lakewarden.planners.surveying.contents import NO_FILES, Amount, Contents, Rewrite, Survey
from lakewarden.service.commands.report.cost import core_seconds
from lakewarden.service.commands.report.lines import ServiceLine, TableLine, Verdict


def line_of(table: Table, survey: Survey, *, now: datetime) -> TableLine:
    """Return the line. A service that has no meaning on the table is left out."""
    view, contents = survey.view, survey.contents
    blockers = tuple(one for one in view.blockers if not (one.moot or one.only_if_configured))
    moot = replace(view, blockers=tuple(one for one in view.blockers if one.moot))
    at = view.writers.last_commit_at
    return TableLine(
        location=table.location,
        name=view.name,
        format=table.format,
        kind=view.kind,
        version=view.version,
        last_commit_at=None if at is None else at.isoformat(),
        live=contents.live,
        small=contents.small,
        deltas=contents.deltas,
        old=contents.old,
        unknown=contents.unknown,
        metadata=contents.metadata,
        versions=contents.versions,
        services=tuple(_services(moot, blockers, contents, table.policies, now=now)),
        left_out=(*contents.notes, *view.faults),
    )


def _services(
    view: TableView,
    blockers: Sequence[Blocker],
    contents: Contents,
    policies: Mapping[Service, Policy],
    *,
    now: datetime,
) -> Iterator[ServiceLine]:
    """Yield the services that have a meaning on the table. What else blocks one is said only if it would run."""
    for service, policy in policies.items():
        state = ServiceState(mode=Mode.ACT)
        decision = decide(service=service, view=view, policy=policy, service_state=state, now=now)
        if isinstance(decision, DoesNotApply):
            continue
        blocker = next((one for one in blockers if one.concerns(service)), None)
        if isinstance(decision, Due) and blocker is not None:
            decision = Blocked(reason=blocker.reason, remedy=blocker.remedy)
        line = _line(service, decision, contents)
        yield replace(line, verdict=Verdict.UNKNOWN) if view.faults else line


def _line(service: Service, decision: Due | NotDue | WouldRun | Blocked, contents: Contents) -> ServiceLine:
    rewrite = contents.rewrites.get(service, Rewrite())
    reads, deletes = Amount(rewrite.files, rewrite.bytes), contents.deletes.get(service, NO_FILES)
    verdict, remedy = _verdict(decision)
    return ServiceLine(
        service=service.value,
        verdict=verdict,
        reason=decision.reason,
        remedy=remedy,
        reads=reads,
        after=rewrite.after,
        deletes=deletes,
        core_seconds=core_seconds(reads, deletes),
    )


def _verdict(decision: Due | NotDue | WouldRun | Blocked) -> tuple[Verdict, str | None]:
    match decision:
        case Due() | WouldRun():
            return Verdict.DUE, None
        case NotDue():
            return Verdict.NOT_DUE, None
        case Blocked():
            return Verdict.BLOCKED, decision.remedy
        case _:
            assert_never(decision)
