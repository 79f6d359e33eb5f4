"""The values of an explanation: JSON for programs, and the source of the text for people.

Times are RFC 3339 in UTC. Names contain units. Unknown values are null.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from lakewarden.planners.model.instant import Step
from lakewarden.service.rules.forecast import Basis


class WriteExplanation(BaseModel):
    """A write in flight. `guarded_until` is when the heartbeat of its writer runs out, or null without a heartbeat."""

    instant: str
    begun_at: datetime
    guarded_until: datetime | None


class WriteFailureExplanation(BaseModel):
    """A write that did not become a commit. `near_run` is the run of ours with the plan or commit that it met.

    Such a failure counts against us until it is explained.
    """

    instant: str
    at: datetime
    reason: str
    near_run: str | None


class WritersExplanation(BaseModel):
    """What the writers of the table are doing. `non_blocking`: they check no conflicts, and compaction waits
    for none.
    """

    in_flight: list[WriteExplanation]
    last_commit_at: datetime | None
    usual_interval_seconds: float | None
    non_blocking: bool
    failures: list[WriteFailureExplanation]


class InnerTableExplanation(BaseModel):
    """The backlog of a table that the format keeps inside the table, and what prevents its compaction."""

    name: str
    commits: int
    since: datetime | None
    pinned_by: str | None


class BlockerExplanation(BaseModel):
    """What blocks services, with the remedy. If `services` is empty, it blocks all services of the table."""

    reason: str
    remedy: str
    services: list[str]


class DecisionExplanation(BaseModel):
    """The last decision: `Due`, `NotDue`, `WouldRun`, `Blocked` or `DoesNotApply`. `again_at` is when it may change
    without a change of the table. `code` stays when the reason is worded better.
    """

    decision: str
    code: str
    reason: str
    remedy: str | None
    decided_at: datetime
    again_at: datetime | None


class BacklogExplanation(BaseModel):
    """The work that has piled up for a service. Log files are those of the file group with the most log files."""

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
    """A plan that waits to be completed. `ours` says whether a run of ours made it or took it up."""

    instant: str
    state: str
    requested_at: datetime
    ours: bool
    guarded_until: datetime | None
    file_groups: int | None
    bytes: int | None


class ActiveRunExplanation(BaseModel):
    """A run that has not ended: the last step with a permit, and what it waits for now."""

    id: str
    state: str
    step: Step | None
    reason: str
    created_at: datetime
    waits_for: str | None


class EndedRunExplanation(BaseModel):
    """The last run that ended, and how it ended."""

    id: str
    state: str
    outcome: str | None
    ended_at: datetime | None
    run_seconds: float | None
    figures: dict[str, int | float | str]


class ForecastExplanation(BaseModel):
    """What a run of a service would do now, if it ran until it has nothing more to do. Null: not known.

    `read_files` become `write_files` with about the same bytes. `delete_files` go, and with them `versions` commits or
    snapshots. `seconds` and `core_seconds` are by `runs` earlier runs: of this table (`basis` is `own`), of other
    tables of its format (`likes`), or of none.
    """

    read_files: int | None
    read_bytes: int | None
    write_files: int | None
    delete_files: int | None
    delete_bytes: int | None
    versions: int | None
    seconds: float | None
    core_seconds: float | None
    runs: int
    basis: Basis


class ApprovalExplanation(BaseModel):
    """A deletion that waits for an operator since `asked_at`. It cannot be undone. `deletes` says it in words.

    `files` of `files_in_table`, whole `partitions` and `versions` are deleted (null: not counted). `instant` is its
    plan, if that waits on the timeline. Otherwise an approved deletion is planned anew, and deletes no more than this.
    """

    deletes: str
    files: int
    bytes: int | None
    files_in_table: int | None
    partitions: int
    versions: int | None
    instant: str | None
    asked_at: datetime


class ServiceExplanation(BaseModel):
    """One service of a table. `due_when` says its trigger in words, `window` the hours in which it may be planned.

    `approval`: what it would delete waits for an operator. `notes` say what it is going to do or to keep, for example
    how large its plans may be. `retries` is how often in a row its runs
    yielded or failed temporarily, and `retry_reason` is the reason of the last one. `priority` orders runs if slots
    are few: 0 is the default, and a higher priority comes first. `spark` is the profile with the workers that carry it
    out. `session` is the Spark configuration of the sessions of its runs. `forecast` is what a run would do now. Null
    while a deletion waits: the approval has the figures then.
    """

    due_when: str
    window: str | None
    priority: int = 0
    spark: str
    session: dict[str, str]
    approval: ApprovalExplanation | None = None
    decision: DecisionExplanation | None
    backlog: BacklogExplanation | None
    notes: list[str]
    pending: list[PlanExplanation]
    active_run: ActiveRunExplanation | None
    last_run: EndedRunExplanation | None
    retries: int = 0
    retry_reason: str | None = None
    forecast: ForecastExplanation | None = None


class LockExplanation(BaseModel):
    """The evidence about the lock of the writers of a table: `proved`, `not yet known` or `disproved`.

    `witnessed` commits of writers were seen under the lock, and `needed` are required. `commit_without` was made
    without it.
    """

    verdict: str
    summary: str
    witnessed: int
    needed: int
    commit_without: str | None


class TableExplanation(BaseModel):
    """The state of a table, and why its services run or do not.

    `poll_seconds` is the setting. `polled_every_seconds` is longer while hooks announce each commit of a table in an
    object store or a catalog. `sources` says where the values come from, by their keys in the configuration.
    """

    table: str
    format: str
    path: str
    explained_at: datetime
    mode: str
    paused: str | None
    failure: str | None
    observed_seconds_ago: float | None
    poll_seconds: float
    polled_every_seconds: float | None = None
    sources: dict[str, str] = {}
    name: str | None
    kind: str | None
    version: str | None
    latest_instant: str | None
    warnings: list[str]
    faults: list[str]
    blockers: list[BlockerExplanation]
    writers: WritersExplanation | None
    lock: LockExplanation | None = None
    inner: list[InnerTableExplanation]
    services: dict[str, ServiceExplanation]
