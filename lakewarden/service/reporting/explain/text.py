"""An explanation for people at three in the morning: what stands still first, one fact a line, aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakewarden.planners.model.printable import printable
from lakewarden.service.reporting.explain.bodies import (
    ActiveRunExplanation,
    BacklogExplanation,
    DecisionExplanation,
    EndedRunExplanation,
    MetadataExplanation,
    PlanExplanation,
    ServiceExplanation,
    TableExplanation,
    WritersExplanation,
)
from lakewarden.service.reporting.quantities import size, span

_WIDTH = 16
_FEW = 4
"""So many services are named."""
_OFTEN = 5
"""So many steps back in a row are no chance any more."""
_Lines = Iterator[tuple[str, str]]
"""What each line is about, and what it says; a line that goes on with the one before is about nothing."""

_SAYS = {"Due": "DUE", "NotDue": "not due", "Blocked": "BLOCKED"}


def written_out(explanation: TableExplanation) -> str:
    """Return the explanation as text, without a line break at its end."""
    kind = " ".join(part for part in (explanation.format, explanation.kind, explanation.version) if part)
    parts = [printable(f"{explanation.table}  {kind}  {explanation.path}"), _aligned(_table(explanation))]
    parts += [f"\n{service}\n{_aligned(_service(one, explanation))}" for service, one in explanation.services.items()]
    if not explanation.services:
        parts.append("\nno service has a policy: only what happens is seen, and nothing is done")
    return "\n".join(parts)


def _aligned(lines: _Lines) -> str:
    return "\n".join(f"  {about:<{_WIDTH}}{printable(says)}".rstrip() for about, says in lines)


def _table(explanation: TableExplanation) -> _Lines:
    now = explanation.explained_at
    yield "mode", explanation.mode
    if explanation.paused is not None:
        yield "PAUSED", explanation.paused
    if explanation.claimed is not None:
        yield "CLAIMED", explanation.claimed.reason
        yield from _remedy(explanation.claimed.remedy)
    yield "last look", _look(explanation)
    if explanation.trouble is not None:
        yield "TROUBLE", explanation.trouble
    for fault in explanation.faults:
        yield "UNREADABLE", fault
    for hindrance in explanation.hindrances:
        yield "HELD BACK", f"{_listed(hindrance.services)}: {hindrance.reason}"
        yield from _remedy(hindrance.remedy)
    for warning in explanation.warnings:
        yield "warning", warning
    if explanation.lock is not None:
        yield "lock", explanation.lock.summary
    if explanation.writers is not None:
        yield from _writers(explanation.writers, now)
    if explanation.metadata is not None:
        yield from _metadata(explanation.metadata, now)


def _look(explanation: TableExplanation) -> str:
    if explanation.looked_seconds_ago is None:
        return "not yet"
    return f"{span(explanation.looked_seconds_ago)} ago; every {span(explanation.poll_seconds)}, sooner after a hook"


def _remedy(remedy: str | None) -> _Lines:
    for number, line in enumerate((remedy or "").splitlines()):
        yield "", f"-> {line}" if number == 0 else f"   {line}"


def _listed(services: Sequence[str]) -> str:
    """Return which services are meant, by name if they are few."""
    if len(services) <= _FEW:
        return ", ".join(services) or "every service"
    return f"{', '.join(services[:_FEW])} and {len(services) - _FEW} more"


def _writers(writers: WritersExplanation, now: datetime) -> _Lines:
    if writers.last_commit_at is None:
        yield "last commit", "none yet"
    else:
        usual = (
            "" if writers.usual_interval_seconds is None else f"; usually every {span(writers.usual_interval_seconds)}"
        )
        yield "last commit", f"{_ago(writers.last_commit_at, now)}{usual}"
    if writers.non_blocking:
        yield "writers", "without blocking: they check no conflict, and compaction waits for none of them"
    for write in writers.in_flight:
        yield (
            "write in flight",
            f"{write.instant}, begun {_ago(write.begun_at, now)}, {_guard(write.guarded_until, now)}",
        )
    for failure in writers.failures:
        near = "" if failure.near_run is None else f" (it met our run {failure.near_run})"
        yield "WRITE FAILED", f"{failure.instant}, {_ago(failure.at, now)}: {failure.reason}{near}"


def _guard(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "no heartbeat"
    left = (until - now).total_seconds()
    return f"heartbeat good for {span(left)}" if left > 0 else f"heartbeat ran out {span(-left)} ago"


def _metadata(metadata: MetadataExplanation, now: datetime) -> _Lines:
    since = "" if metadata.since is None else f", {_ago(metadata.since, now)}"
    yield "metadata table", f"{_counted(metadata.commits, 'commit')} since its last compaction{since}"
    if metadata.pinned_by is not None:
        yield "", f"kept from being compacted by {metadata.pinned_by}"


def _service(service: ServiceExplanation, explanation: TableExplanation) -> _Lines:
    now = explanation.explained_at
    yield from _decision(service.decision, now)
    if service.waits_for_approval:
        yield "APPROVAL", "it would delete more than the table's budget, and waits for a person"
    if service.steps_back >= _OFTEN:
        yield (
            "STANDS STILL",
            f"it stepped back {service.steps_back} times in a row, the last time for: {service.stepped_back_for}",
        )
    yield "due when", service.due_when
    if service.window is not None:
        yield "window", service.window
    if service.priority:
        yield "priority", str(service.priority)
    yield "spark", "; ".join([service.spark, *(f"{key}={value}" for key, value in service.session.items())])
    if service.backlog is not None:
        yield "backlog", _backlog(service.backlog)
    for note in service.notes:
        yield "note", note
    for plan in service.pending:
        yield "pending", _plan(plan, now)
    if service.active_run is not None:
        yield from _active(service.active_run, now)
    yield "last run", "none" if service.last_run is None else _ended(service.last_run, now)


def _decision(decision: DecisionExplanation | None, now: datetime) -> _Lines:
    if decision is None:
        yield "decision", "none yet"
        return
    yield _SAYS.get(decision.decision, decision.decision), decision.reason
    yield from _remedy(decision.remedy)
    yield "decided", _ago(decision.decided_at, now)
    if decision.decision != "Due":
        yield "again", "when the table changes" if decision.again_at is None else _when(decision.again_at, now)


def _when(moment: datetime, now: datetime) -> str:
    left = (moment - now).total_seconds()
    when = f"in {span(left)} ({moment:%Y-%m-%d %H:%M:%S}Z)" if left > 0 else "at the next look"
    return f"{when}, or when the table changes"


def _backlog(backlog: BacklogExplanation) -> str:
    facts = [
        f"{_counted(backlog.commits, 'commit')}, {backlog.commits_since_request} since the last request",
        _counted(backlog.rewrites, "rewrite") if backlog.rewrites else None,
        None if backlog.file_groups is None else _counted(backlog.file_groups, "file group"),
        None if backlog.files is None else _counted(backlog.files, "file"),
        None if backlog.bytes is None else size(backlog.bytes),
        None if backlog.small_files is None else _counted(backlog.small_files, "small file"),
        None if backlog.log_files is None else f"at most {_counted(backlog.log_files, 'log file')} in a file group",
        None if backlog.log_bytes is None else f"at most {size(backlog.log_bytes)} of log files in a file group",
    ]
    return "; ".join(fact for fact in facts if fact is not None)


def _plan(plan: PlanExplanation, now: datetime) -> str:
    facts = [
        f"{plan.instant} {plan.state.lower()} {_ago(plan.requested_at, now)}",
        "ours" if plan.ours else "not signed by us",
        None if plan.file_groups is None else _counted(plan.file_groups, "file group"),
        None if plan.bytes is None else size(plan.bytes),
        None if plan.guarded_until is None else _guard(plan.guarded_until, now),
    ]
    return ", ".join(fact for fact in facts if fact is not None)


def _active(run: ActiveRunExplanation, now: datetime) -> _Lines:
    step = "" if run.step is None else f" at {run.step}"
    yield "RUNNING", f"{run.id} {run.state}{step}, asked for {_ago(run.created_at, now)}: {run.reason}"
    if run.waits_for is not None:
        yield "", f"waits for {run.waits_for}"


def _ended(run: EndedRunExplanation, now: datetime) -> str:
    ago = "" if run.ended_at is None else f" {_ago(run.ended_at, now)}"
    took = "" if run.run_seconds is None else f", took {span(run.run_seconds)}"
    return f"{run.state}{ago}{took}: {run.outcome or 'no more is known'} ({run.id})"


def _ago(moment: datetime, now: datetime) -> str:
    return f"{span(max(0.0, (now - moment).total_seconds()))} ago"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
