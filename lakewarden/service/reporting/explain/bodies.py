"""What an explanation says: JSON for programs, and what the text for people is written from.

Times are RFC 3339 in UTC, units stand in the names. What is not known is null.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel


class WriteExplanation(BaseModel):
    """A write in flight; `guarded_until` is when its writer's heartbeat runs out, null where it has none."""

    instant: str
    begun_at: datetime
    guarded_until: datetime | None


class WriteFailureExplanation(BaseModel):
    """A write that did not become a commit. `near_run` is the run of ours whose plan or commit it met: such a
    failure counts against us until it is explained.
    """

    instant: str
    at: datetime
    reason: str
    near_run: str | None


class WritersExplanation(BaseModel):
    """What the table's writers are doing. `non_blocking`: none checks a conflict, and compaction waits for none."""

    in_flight: list[WriteExplanation]
    last_commit_at: datetime | None
    usual_interval_seconds: float | None
    non_blocking: bool
    failures: list[WriteFailureExplanation]


class MetadataExplanation(BaseModel):
    """The backlog of the table that the format keeps about the table, and what keeps it from being compacted."""

    commits: int
    since: datetime | None
    pinned_by: str | None


class HindranceExplanation(BaseModel):
    """What holds services back, and what a person sets to let them go. No `services` means all that the table has."""

    reason: str
    remedy: str
    services: list[str]


class DecisionExplanation(BaseModel):
    """The last decision: `Due`, `NotDue` or `Blocked`. `again_at` is when time alone may change it."""

    decision: str
    reason: str
    remedy: str | None
    decided_at: datetime
    again_at: datetime | None


class BacklogExplanation(BaseModel):
    """The work that has piled up for a service. Log files are those of the file group that has the most."""

    commits: int
    commits_since_request: int
    rewrites: int
    since: datetime | None
    since_request: datetime | None
    files: int | None
    bytes: int | None
    file_groups: int | None
    log_files: int | None
    log_bytes: int | None
    small_files: int | None


class PlanExplanation(BaseModel):
    """A plan that waits to be completed. `ours` says whether it carries the name of a run of ours."""

    instant: str
    state: str
    requested_at: datetime
    ours: bool
    guarded_until: datetime | None
    file_groups: int | None
    bytes: int | None


class ActiveRunExplanation(BaseModel):
    """A run that has not ended: the last step it had leave for, and what it waits for now."""

    id: str
    state: str
    step: str | None
    reason: str
    created_at: datetime
    waits_for: str | None


class EndedRunExplanation(BaseModel):
    """The last run that ended, and how."""

    id: str
    state: str
    outcome: str | None
    ended_at: datetime | None
    run_seconds: float | None
    figures: dict[str, int | float | str]


class ServiceExplanation(BaseModel):
    """One service of a table. `due_when` says its trigger in words, `window` the hours in which it may be planned.
    `waits_for_approval`: it would delete more than the table's budget lets it, and waits for a person. `notes` are
    what a person should know of what it is going to do, or to keep: how large its plans may be, for one. `steps_back`
    is how often in a row its runs gave way, or failed for a time, and `stepped_back_for` why the last one did.
    `priority` says how far in front its runs stand where slots are few: 0 is the default, and more comes first.
    `spark` is the profile whose workers carry it out, `session` the Spark configuration of its runs' own sessions.
    """

    due_when: str
    window: str | None
    priority: int = 0
    spark: str
    session: dict[str, str]
    waits_for_approval: bool
    decision: DecisionExplanation | None
    backlog: BacklogExplanation | None
    notes: list[str]
    pending: list[PlanExplanation]
    active_run: ActiveRunExplanation | None
    last_run: EndedRunExplanation | None
    steps_back: int = 0
    stepped_back_for: str | None = None


class LockExplanation(BaseModel):
    """What was seen of the lock that a table's writers are said to use: `proved`, `not yet known` or `disproved`.

    `witnessed` commits of writers were seen under it, of `needed`; `commit_without` was made while nobody took it.
    """

    verdict: str
    summary: str
    witnessed: int
    needed: int
    commit_without: str | None


class TableExplanation(BaseModel):
    """Everything that a person who is woken by a table asks first."""

    table: str
    format: str
    path: str
    explained_at: datetime
    mode: str
    paused: str | None
    trouble: str | None
    claimed: HindranceExplanation | None = None
    looked_seconds_ago: float | None
    poll_seconds: float
    name: str | None
    kind: str | None
    version: str | None
    latest_instant: str | None
    warnings: list[str]
    faults: list[str]
    hindrances: list[HindranceExplanation]
    writers: WritersExplanation | None
    lock: LockExplanation | None = None
    metadata: MetadataExplanation | None
    services: dict[str, ServiceExplanation]
