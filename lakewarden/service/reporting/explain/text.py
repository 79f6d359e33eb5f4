"""An explanation as text: blocked things first, one fact a line, aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakewarden.planners.model.printable import counted, printable, size, span
from lakewarden.service.reporting.explain.assembly import PastExplanation, PastServiceExplanation
from lakewarden.service.reporting.explain.bodies import (
    ActiveRunExplanation,
    BacklogExplanation,
    DecisionExplanation,
    EndedRunExplanation,
    ForecastExplanation,
    InnerTableExplanation,
    PlanExplanation,
    TableExplanation,
    WritersExplanation,
)
from lakewarden.service.rules.forecast import Basis

_WIDTH = 16
_FEW = 4
"""How many services are named."""
_OFTEN = 5
"""After so many yields in a row the service is reported as standing still."""
_SHORT = 8
"""So many characters of a run's id are shown. Commands take any unique beginning."""
_BUILT_IN = "built-in"
_Lines = Iterator[tuple[str, str]]
"""The subject and the text of each line. A line that continues the one before has no subject."""

_SAYS = {
    "Due": "DUE",
    "NotDue": "not due",
    "WouldRun": "DUE, NOT RUN",
    "Blocked": "BLOCKED",
    "DoesNotApply": "does not apply",
}


def written_out(explanation: TableExplanation) -> str:
    """Return the explanation as text, without a line break at its end."""
    kind = " ".join(part for part in (explanation.format, explanation.kind) if part)
    version = explanation.version
    named = "" if version is None or version in kind else f" version {version}"  # the kind `v2` names it
    parts = [printable(f"{explanation.table}  {kind}{named}  {explanation.path}"), _aligned(_table(explanation))]
    parts += [f"\n{name}\n{_aligned(_service(name, explanation))}" for name in explanation.services]
    if not explanation.services:
        parts.append("\nno service has a policy: the table is only observed")
    return "\n".join(parts)


def _aligned(lines: _Lines) -> str:
    return "\n".join(f"  {about:<{_WIDTH}}{printable(says)}".rstrip() for about, says in lines)


def _table(explanation: TableExplanation) -> _Lines:
    now = explanation.explained_at
    yield "mode", explanation.mode + _from(explanation, "mode")
    if explanation.paused is not None:
        yield "PAUSED", explanation.paused
    yield "last poll", _look(explanation)
    if explanation.failure is not None:
        yield "FAILURE", explanation.failure
    for fault in explanation.faults:
        yield "UNREADABLE", fault
    for blocker in explanation.blockers:
        yield "BLOCKED", f"{_listed(blocker.services)}: {blocker.reason}"
        yield from _remedy(blocker.remedy)
    for warning in explanation.warnings:
        yield "warning", warning
    if explanation.lock is not None:
        yield "lock", explanation.lock.summary
    if explanation.writers is not None:
        yield from _writers(explanation.writers, now)
    for inner in explanation.inner:
        yield from _inner(inner, now)


def _look(explanation: TableExplanation) -> str:
    if explanation.observed_seconds_ago is None:
        return "not yet"
    if not explanation.poll_seconds:
        return "now, without a daemon"
    ago, poll = span(explanation.observed_seconds_ago), span(explanation.poll_seconds)
    now = explanation.polled_every_seconds
    if now is not None and now > explanation.poll_seconds:
        return f"{ago} ago; every {span(now)}, because hooks announce each commit. Without them every {poll}"
    return f"{ago} ago; every {poll}, sooner after a hook{_from(explanation, 'poll')}"


def _remedy(remedy: str | None) -> _Lines:
    for number, line in enumerate((remedy or "").splitlines()):
        yield "", f"-> {line}" if number == 0 else f"   {line}"


def _listed(services: Sequence[str]) -> str:
    """Return the services by name if they are few."""
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
        yield "writers", "without blocking: they check no conflicts, and compaction waits for none of them"
    for write in writers.in_flight:
        yield (
            "write in flight",
            f"{write.instant}, begun {_ago(write.begun_at, now)}, {_guard(write.guarded_until, now)}",
        )
    for failure in writers.failures:
        near = "" if failure.near_run is None else f" (it met our run {failure.near_run[:_SHORT]})"
        yield "WRITE FAILED", f"{failure.instant}, {_ago(failure.at, now)}: {failure.reason}{near}"


def _guard(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "no heartbeat"
    left = (until - now).total_seconds()
    return f"heartbeat good for {span(left)}" if left > 0 else f"heartbeat ran out {span(-left)} ago"


def _inner(inner: InnerTableExplanation, now: datetime) -> _Lines:
    since = "" if inner.since is None else f", {_ago(inner.since, now)}"
    yield inner.name, f"{counted(inner.commits, 'commit')} since its last compaction{since}"
    if inner.pinned_by is not None:
        yield "", f"its compaction is prevented by {inner.pinned_by}"


def _from(explanation: TableExplanation, key: str) -> str:
    """Return where a value comes from, in brackets. Nothing for a value that is built in."""
    source = explanation.sources.get(key, _BUILT_IN)
    return "" if source == _BUILT_IN else f"  [{source}]"


def _service(name: str, explanation: TableExplanation) -> _Lines:
    service, now = explanation.services[name], explanation.explained_at

    def source(key: str) -> str:
        return _from(explanation, f"services.{name}.{key}")

    if service.active_run is None or service.decision is None or service.decision.code != "run_active":
        yield from _decision(service.decision, now)  # else the line of the run says it
    if service.approval is not None:
        yield "deletes", f"{service.approval.deletes}; asked {_ago(service.approval.asked_at, now)}"
    if service.retries >= _OFTEN:
        yield (
            "STALLED",
            f"it yielded {counted(service.retries, 'time')} in a row, the last time because: {service.retry_reason}",
        )
    yield "due when", service.due_when + source("trigger")
    if service.window is not None:
        yield "window", service.window + source("window")
    if service.priority:
        yield "priority", str(service.priority) + source("priority")
    session = "; ".join([service.spark, *(f"{key}={value}" for key, value in service.session.items())])
    yield "spark", session + source("spark")
    if service.backlog is not None:
        yield "backlog", _backlog(service.backlog)
    if service.forecast is not None and (words := forecast_in_words(service.forecast)):
        yield "a run now", words
    for note in service.notes:
        yield "note", note
    for plan in service.pending:
        yield "pending", _plan(plan, now)
    if service.active_run is not None:
        yield from _active(service.active_run, now)
    yield "last run", "none" if service.last_run is None else _ended(service.last_run, now)


_ENDED_BY_A_PERSON = {
    "quarantined": "when an operator releases it",
    "approval_needed": "when an operator approves it, or when the table changes",
}


def _decision(decision: DecisionExplanation | None, now: datetime) -> _Lines:
    if decision is None:
        yield "decision", "none yet"
        return
    waits = decision.code == "approval_needed"
    yield "WAITS" if waits else _SAYS.get(decision.decision, decision.decision), decision.reason
    yield from _remedy(decision.remedy)
    yield "decided", _ago(decision.decided_at, now)
    if decision.decision != "Due":
        ending = _ENDED_BY_A_PERSON.get(decision.code or "", "when the table changes")
        yield "again", ending if decision.again_at is None else _when(decision.again_at, now)


def _when(moment: datetime, now: datetime) -> str:
    left = (moment - now).total_seconds()
    when = f"in {span(left)} ({moment:%Y-%m-%d %H:%M:%S}Z)" if left > 0 else "at the next poll"
    return f"{when}, or when the table changes"


def _backlog(backlog: BacklogExplanation) -> str:
    facts = [
        f"{counted(backlog.commits, 'commit')}, {backlog.commits_since_request} since the last request",
        counted(backlog.rewrites, "rewrite") if backlog.rewrites else None,
        None if backlog.file_groups is None else counted(backlog.file_groups, "file group"),
        None if backlog.files is None else counted(backlog.files, "file"),
        None if backlog.bytes is None else size(backlog.bytes),
        None if backlog.small_files is None else counted(backlog.small_files, "small file"),
        None if backlog.log_files is None else f"at most {counted(backlog.log_files, 'log file')} in a file group",
        None if backlog.log_bytes is None else f"at most {size(backlog.log_bytes)} of log files in a file group",
    ]
    return "; ".join(fact for fact in facts if fact is not None)


def forecast_in_words(forecast: ForecastExplanation) -> str:
    """Return what a run would do now, in words. It is empty if nothing is known."""
    read = _amount(forecast.read_files, forecast.read_bytes)
    deleted = _amount(forecast.delete_files, forecast.delete_bytes)
    facts = [
        None if read is None else f"reads {read}",
        None if forecast.write_files is None else f"writes {counted(forecast.write_files, 'file')}",
        None if deleted is None else f"deletes {deleted}",
        _versions(forecast.versions),
        _effort(forecast),
    ]
    return "; ".join(fact for fact in facts if fact is not None)


def _versions(versions: int | None) -> str | None:
    if versions is None:
        return None
    return "1 version of the table goes" if versions == 1 else f"{versions} versions of the table go"


def _amount(files: int | None, content: int | None) -> str | None:
    amounts = [None if files is None else counted(files, "file"), None if content is None else size(content)]
    return ", ".join(amount for amount in amounts if amount is not None) or None


def _effort(forecast: ForecastExplanation) -> str:
    if forecast.seconds is None:
        return "no history yet: how long it takes is not known"
    cores = "" if forecast.core_seconds is None else f", {forecast.core_seconds:g} core-seconds"
    of = "this table" if forecast.basis is Basis.OWN else "other tables of its format"
    return f"about {span(forecast.seconds)}{cores} (from {counted(forecast.runs, 'run')} of {of})"


def _plan(plan: PlanExplanation, now: datetime) -> str:
    facts = [
        f"{plan.instant} {plan.state.lower()} {_ago(plan.requested_at, now)}",
        "ours" if plan.ours else "not signed by us",
        counted(plan.file_groups, "file group") if plan.file_groups else None,
        None if plan.bytes is None else size(plan.bytes),
        None if plan.guarded_until is None else _guard(plan.guarded_until, now),
    ]
    return ", ".join(fact for fact in facts if fact is not None)


def _active(run: ActiveRunExplanation, now: datetime) -> _Lines:
    step = "" if run.step is None else f" at {run.step}"
    yield "RUNNING", f"{run.id[:_SHORT]} {run.state}{step}, requested {_ago(run.created_at, now)}: {run.reason}"
    if run.waits_for is not None:
        yield "", f"waits for {run.waits_for}"


def _ended(run: EndedRunExplanation, now: datetime) -> str:
    ago = "" if run.ended_at is None else f" {_ago(run.ended_at, now)}"
    took = "" if run.run_seconds is None else f", took {span(run.run_seconds)}"
    return f"{run.state}{ago}{took}: {run.outcome or 'no outcome recorded'} ({run.id[:_SHORT]})"


def _ago(moment: datetime, now: datetime) -> str:
    return f"{span(max(0.0, (now - moment).total_seconds()))} ago"


def past_written_out(past: PastExplanation) -> str:
    """Return the explanation of a moment as text, without a line break at its end."""
    lines = [printable(f"{past.table}  at {past.at:%Y-%m-%d %H:%M:%S %Z}".rstrip())]
    for service, explanation in past.services.items():
        lines += [
            "",
            service,
            *(f"  {about:<{_WIDTH}}{printable(says)}".rstrip() for about, says in _past_lines(explanation)),
        ]
    if not past.services:
        lines.append("\nnothing is known of that moment: no decision is kept from before it")
    return "\n".join(lines)


def _past_lines(explanation: PastServiceExplanation) -> Sequence[tuple[str, str]]:
    lines = []
    if (decision := explanation.decision) is not None:
        lines.append((_SAYS.get(decision.decision, decision.decision), decision.reason))
        lines += [("", f"remedy: {decision.remedy}")] if decision.remedy else []
        until = "still" if decision.until is None else f"until {decision.until:%Y-%m-%d %H:%M:%S}"
        lines.append(("held", f"since {decision.since:%Y-%m-%d %H:%M:%S}, {until}"))
    for run in explanation.runs:
        end = "it is active" if run.ended_at is None else f"ended at {run.ended_at:%H:%M:%S}: {run.outcome}"
        lines.append(("run", f"{run.id}, {'queued' if run.started_at is None else 'started'}; {end}"))
    return lines
