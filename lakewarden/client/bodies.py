"""The bodies of the API, as types of dictionaries. A field may be absent only if it is `NotRequired`.

Written by `python -m docs.client` from `docs/openapi.json`. Do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ActKind = Literal[
    "run_requested",
    "rewrite_withdrawn",
    "paused",
    "resumed",
    "deletion_approved",
    "barrier_asked",
    "barrier_lifted",
    "run_cancelled",
    "released",
    "drained",
    "reloaded",
    "table_registered",
    "registration_changed",
    "table_removed",
    "key_created",
    "key_revoked",
]
"""What was done."""

Basis = Literal["own", "likes", "none"]
"""The runs that a forecast of time and cores is made from."""

Check = Literal["table", "lock", "heartbeats", "hook", "alone", "readers", "retention", "zone", "clock", "workers"]
"""What is checked of a table."""

Mode = Literal["observe", "plan", "act"]
"""How far Lakewarden may go with a table."""

ProofResult = Literal["ok", "not proved", "wrong"]
"""The result of a check. What is not proved is not known from here, or becomes ok by itself if everything is as it
should be.
"""

RunState = Literal["QUEUED", "RUNNING", "COMMITTING", "UNKNOWN", "SUCCEEDED", "FAILED", "CANCELLED", "YIELDED"]
"""The state of a run. UNKNOWN is no ending: the timeline will show how the run ended. YIELDED: the run stepped back
by itself, for a writer or for an operator's approval, and its service runs again.
"""

Scheduling = Literal["daemon", "writer", "both"]
"""Who makes plans for a service: Lakewarden, the table's writers, or both."""

Service = Literal[
    "compaction",
    "log_compaction",
    "clustering",
    "clean",
    "archive",
    "rollback",
    "ttl",
    "indexing",
    "savepoint",
    "catalog_sync",
    "metadata_validation",
    "metadata_rebuild",
    "orphans",
    "table_stats",
    "partition_commit",
]
"""The table services. The names are the same for every format."""

Step = Literal["plan", "execute", "commit"]
"""The three steps of every run, in order."""


class ActBody(TypedDict):
    """One act of a person or a program.

    `key` is the id of the API key, or the place of its secret. It is null if no key was asked for. `before` and
    `after` are what the act changed. `number` rises with each act.
    """

    after: str | None
    at: str
    before: str | None
    key: str | None
    kind: ActKind
    number: int
    service: str | None
    table: str | None
    who: str


class ActPage(TypedDict):
    """One page of acts."""

    items: list[ActBody]
    next: NotRequired[str | None]


class ActiveRunExplanation(TypedDict):
    """A run that has not ended: the last step with a permit, and what it waits for now."""

    created_at: str
    id: str
    reason: str
    state: str
    step: Step | None
    waits_for: str | None


class ApprovalBody(TypedDict):
    """A deletion that waits until a person approves it (`approved_by`).

    `files`, `bytes`, `partitions` and `versions` would be deleted for good; `deletes` says it in words. A figure
    is null if it was not counted. It waits because it is beyond the budget of its table, because it is the
    `first` clean of the table, or because the policy keeps less than was kept before: `shorter` says what.
    Everything from the commit `retained` on stays. It is null if the plan did not say it, or if the plan itself
    waits as `instant`.
    """

    approved_at: str | None
    approved_by: str | None
    asked_at: str
    bytes: int | None
    deletes: str
    files: int
    files_in_table: int | None
    first: bool
    instant: str | None
    partitions: int
    retained: str | None
    service: str
    shorter: str | None
    table: str
    versions: int | None


class ApprovalExplanation(TypedDict):
    """A deletion that waits for an operator since `asked_at`. It cannot be undone. `deletes` says it in words.

    `files` of `files_in_table`, whole `partitions` and `versions` are deleted (null: not counted). `instant` is
    its plan, if that waits on the timeline. Otherwise an approved deletion is planned anew, and deletes no more
    than this.
    """

    asked_at: str
    bytes: int | None
    deletes: str
    files: int
    files_in_table: int | None
    instant: str | None
    partitions: int
    versions: int | None


class ApprovalPage(TypedDict):
    """One page of deletions beyond a budget."""

    items: list[ApprovalBody]
    next: NotRequired[str | None]


class ApprovalRequest(TypedDict):
    """The person who approves. It counts only without authentication. With it the name of the API key counts."""

    by: NotRequired[str]


class BacklogExplanation(TypedDict):
    """The work that has piled up for a service. Log files are those of the file group with the most log files."""

    bytes: int | None
    commits: int
    commits_since_request: int
    file_groups: int | None
    files: int | None
    log_bytes: int | None
    log_files: int | None
    rewrites: int
    since: str | None
    since_request: str | None
    small_files: int | None


class BarrierBody(TypedDict):
    """No clean of the table is executing, and none will before `held_until`. `hold` is the id that ends the hold."""

    held_until: str
    hold: str
    owner: str
    table: str
    waited_seconds: float


class BarrierRequest(TypedDict):
    """How long to delay cleans after none is executing, and how long to wait for that."""

    hold: NotRequired[str]
    wait: NotRequired[str]


class BlockedBody(TypedDict):
    """The services that one reason blocks: its code, how many services of how many tables, and the first of them.

    `meaning` and `cure` are those of the code. `reason` and `remedy` are those of the first table.
    """

    code: str
    cure: str
    meaning: str
    reason: str
    remedy: str | None
    service: str
    services: int
    table: str
    tables: int


class BlockerExplanation(TypedDict):
    """What blocks services, with the remedy. If `services` is empty, it blocks all services of the table."""

    reason: str
    remedy: str
    services: list[str]


class ChangedTableRequest(TypedDict):
    """The entry of a table, in the words of the configuration. It replaces the former entry as a whole.

    What is left out comes from the policy, from the first pattern that means the table, and from the defaults. A
    service that is `false` is switched off. `options`, `session` and `spark.conf` are for the configuration
    alone.
    """

    budget: NotRequired[RegisteredBudgetRequest | None]
    contact: NotRequired[str | None]
    format: NotRequired[str | None]
    labels: NotRequired[dict[str, str] | None]
    mode: NotRequired[Mode | None]
    path: str
    policy: NotRequired[str | None]
    poll: NotRequired[str | None]
    priority: NotRequired[int | None]
    services: NotRequired[dict[str, RegisteredServiceRequest | bool] | None]
    spark: NotRequired[str | None]


class CheckBody(TypedDict):
    """One check of a table: what was found, and what to do about it. `needed`: the proof does not do without it."""

    check: Check
    cure: str | None
    found: str
    needed: bool
    result: ProofResult


class ConfigBody(TypedDict):
    """The configuration of the daemon that answers, with its defaults.

    A secret stands there as its place (`env` or `file`). A value of Spark or of a catalog is `REDACTED` if its
    key has the name of a secret. It is empty if the daemon was started without a configuration.
    """

    configuration: dict[str, Any]
    refused: NotRequired[list[str]]


class DecisionBody(TypedDict):
    """The last decision, and its reason."""

    again_at: str | None
    code: str
    decision: str
    reason: str
    remedy: str | None


class DecisionChangeBody(TypedDict):
    """A decision on one service, from `since` to `until` (null: it still holds)."""

    again_at: str | None
    decision: str
    reason: str
    remedy: str | None
    service: Service
    since: str
    until: str | None


class DecisionExplanation(TypedDict):
    """The last decision: `Due`, `NotDue`, `WouldRun`, `Blocked` or `DoesNotApply`. `again_at` is when it may change
    without a change of the table. `code` stays when the reason is worded better.
    """

    again_at: str | None
    code: str
    decided_at: str
    decision: str
    reason: str
    remedy: str | None


class DecisionPage(TypedDict):
    """One page of decisions."""

    items: list[DecisionChangeBody]
    next: NotRequired[str | None]


class DrainBody(TypedDict):
    """Whether the daemon began to stop because of this request. False if it was stopping already."""

    stopping: bool


class DryRunExplanation(TypedDict):
    """What a request for a run would meet now. Nothing was changed.

    `begins` says whether a run would begin. If not, `reason` says why, and `remedy` what an operator has to do.
    The decision is made as for that request: the trigger and the window are skipped, a block is not. `instant` is
    the pending plan that the run would take up. Without it the run would make a plan. `active_run` is a run of
    the service that is active: it would be the answer. `forecast` is what the run would do, by the table and by
    earlier runs. Null: the table shows no work for it. `says` is the whole in words.
    """

    active_run: str | None
    begins: bool
    code: str
    decision: str
    forecast: ForecastExplanation | None
    instant: str | None
    reason: str
    remedy: str | None
    says: str
    service: str
    table: str


class EndedRunExplanation(TypedDict):
    """The last run that ended, and how it ended."""

    ended_at: str | None
    figures: dict[str, int | float | str]
    id: str
    outcome: str | None
    run_seconds: float | None
    state: str


class EntryBody(TypedDict):
    """One instant of a timeline. `stands_for` is the service, or `write`, `savepoint`, `restore` or `other`.

    `run` is the run of ours that planned it. `guarded_until` is when the heartbeat of its executor runs out.
    `bytes` and `file_groups` are the size of a pending plan.
    """

    action: str
    bytes: int | None
    completed_at: str | None
    file_groups: int | None
    guarded_until: str | None
    requested_at: str
    run: str | None
    stands_for: str
    state: str
    time: str


class EntryPage(TypedDict):
    """One page of a timeline."""

    items: list[EntryBody]
    next: NotRequired[str | None]


class FleetStatusBody(TypedDict):
    """The tables for which the caller is a viewer, from `since` to `at`.

    `observed` tables have a view here. With replicas, only the owner of a table has one. `failing` are the tables
    that could not be observed. `writer_failures` are the writes that failed, and `near_us` those of them that met
    a run of Lakewarden. Lists have 20 items at most.
    """

    active_runs: int
    approvals: list[WaitingBody]
    at: str
    blocked: list[BlockedBody]
    failing: int
    foreign_services: list[ForeignServiceBody]
    observed: int
    paused: int
    ran: list[RanBody]
    runs_complete: bool
    since: str
    tables: int
    would_run: list[WouldRunBody]
    writer_failures: int
    writer_failures_near_us: int


class ForecastExplanation(TypedDict):
    """What a run of a service would do now, if it ran until it has nothing more to do. Null: not known.

    `read_files` become `write_files` with about the same bytes. `delete_files` go, and with them `versions`
    commits or snapshots. `seconds` and `core_seconds` are by `runs` earlier runs: of this table (`basis` is
    `own`), of other tables of its format (`likes`), or of none.
    """

    basis: Basis
    core_seconds: float | None
    delete_bytes: int | None
    delete_files: int | None
    read_bytes: int | None
    read_files: int | None
    runs: int
    seconds: float | None
    versions: int | None
    write_files: int | None


class ForeignServiceBody(TypedDict):
    """A service that a program other than Lakewarden has completed on a table, although it has a policy here."""

    at: str
    instant: str
    service: str
    table: str


class HoldBody(TypedDict):
    """A hold on the cleans of a table. `owner` is the name of the caller that has it."""

    held_until: str
    id: str
    owner: str


class HoldPage(TypedDict):
    """The holds on the cleans of a table. There is one page."""

    items: list[HoldBody]
    next: NotRequired[str | None]


class HookBody(TypedDict):
    """The result of a commit hook: `accepted`, or `unknown_table`. In both cases the sender need not send it again."""

    result: str
    table: str | None


class InnerTableExplanation(TypedDict):
    """The backlog of a table that the format keeps inside the table, and what prevents its compaction."""

    commits: int
    name: str
    pinned_by: str | None
    since: str | None


class ListingBody(TypedDict):
    """How many sources are listed now."""

    sources: int


class LockExplanation(TypedDict):
    """The evidence about the lock of the writers of a table: `proved`, `not yet known` or `disproved`.

    `witnessed` commits of writers were seen under the lock, and `needed` are required. `commit_without` was made
    without it.
    """

    commit_without: str | None
    needed: int
    summary: str
    verdict: str
    witnessed: int


class LogLineBody(TypedDict):
    """One line. `source` is `worker`, `jvm` or `daemon`. `at` is null if the source wrote no time.

    `fields` are further facts, such as `table`, `epoch` and `instant`. A number that is left out is a line that
    was deleted, because the log was too long (`history.run_log`).
    """

    at: str | None
    fields: dict[str, str]
    level: str | None
    logger: str | None
    message: str
    number: int
    source: str


class LogPage(TypedDict):
    """One page of the log of a run."""

    items: list[LogLineBody]
    next: NotRequired[str | None]


class PastDecision(TypedDict):
    """A decision of the past: `Due`, `NotDue`, `WouldRun`, `Blocked` or `DoesNotApply`, from `since` to `until`
    (null: it still holds).

    The numbers in its reason are those of its beginning.
    """

    again_at: str | None
    decision: str
    reason: str
    remedy: str | None
    since: str
    until: str | None


class PastExplanation(TypedDict):
    """What was decided on a table at a past moment, and what ran. A service that nothing is known of is left out."""

    at: str
    services: dict[str, PastServiceExplanation]
    table: str


class PastRun(TypedDict):
    """A run that had been requested and had not ended at the moment. `outcome` is how it ended later."""

    created_at: str
    ended_at: str | None
    id: str
    outcome: str | None
    reason: str
    requested_by: str
    service: str
    started_at: str | None


class PastServiceExplanation(TypedDict):
    """One service at a past moment."""

    decision: PastDecision | None
    runs: list[PastRun]


class PauseRequest(TypedDict):
    """Why something is paused. Operators read it."""

    reason: NotRequired[str]


class PlanExplanation(TypedDict):
    """A plan that waits to be completed. `ours` says whether a run of ours made it or took it up."""

    bytes: int | None
    file_groups: int | None
    guarded_until: str | None
    instant: str
    ours: bool
    requested_at: str
    state: str


class PoliciesBody(TypedDict):
    """The settings of a table that are in force, by their keys. `services` has those of each policy.

    Values are written as in the configuration. Options are in the terms of the format.
    """

    not_applicable: dict[str, str]
    services: dict[str, dict[str, SettingBody]]
    settings: dict[str, SettingBody]
    table: str


class ProblemBody(TypedDict):
    """Any error, as problem details (RFC 9457). A member without a value is left out.

    `type` and `code` are for programs, and do not change. `detail` is for people. `remedy` says what to do, if
    that is known. `instance` is the path of the request. `key` is the id of the API key that was refused.
    """

    code: str
    detail: str
    instance: NotRequired[str | None]
    key: NotRequired[str | None]
    remedy: NotRequired[str | None]
    status: int
    title: str
    type: str


class ProgressBody(TypedDict):
    """What a run does now, as its worker said it at its last heartbeat. It is not stored.

    `stages` and `tasks` are those of the Spark jobs that have begun: a later job brings more. `stage` is a stage
    at work. `bytes_read` and `bytes_written` do not count what is shuffled. `core_seconds` is how long tasks
    occupied a core. `planned_bytes` and `planned_file_groups` are the size of the plan, if the plan says it.
    """

    bytes_read: int
    bytes_written: int
    core_seconds: float
    jobs: int
    planned_bytes: int | None
    planned_file_groups: int | None
    stage: str | None
    stages: int
    stages_done: int
    step: Step | None
    tasks: int
    tasks_active: int
    tasks_done: int
    tasks_failed: int


class ProofBody(TypedDict):
    """The proof of a table. `proved`: each check that is needed is ok. `act_when` says whether the policy asks for
    it.
    """

    act_when: str
    checks: list[CheckBody]
    mode: str
    proved: bool
    table: str


class RanBody(TypedDict):
    """The runs of a service that were requested in the period and have ended with one state."""

    runs: int
    service: str
    state: RunState


class RefusedTableBody(TypedDict):
    """A table, or a namespace, and why it is not served."""

    name: str
    reason: str


class RegisteredBudgetRequest(TypedDict):
    """The most that one run may delete without an approval."""

    files: NotRequired[int | None]
    partitions: NotRequired[int | None]
    percent: NotRequired[float | None]


class RegisteredServiceRequest(TypedDict):
    """The policy of one service, as in the configuration. Its options come from a policy of the configuration."""

    grace: NotRequired[str | None]
    priority: NotRequired[int | None]
    schedule: NotRequired[Scheduling | None]
    trigger: NotRequired[dict[str, Any] | None]
    window: NotRequired[dict[str, Any] | None]


class RegisteredTableRequest(TypedDict):
    """The entry of a new table. Without an `id` it is the path with dots."""

    budget: NotRequired[RegisteredBudgetRequest | None]
    contact: NotRequired[str | None]
    format: NotRequired[str | None]
    id: NotRequired[str | None]
    labels: NotRequired[dict[str, str] | None]
    mode: NotRequired[Mode | None]
    path: str
    policy: NotRequired[str | None]
    poll: NotRequired[str | None]
    priority: NotRequired[int | None]
    services: NotRequired[dict[str, RegisteredServiceRequest | bool] | None]
    spark: NotRequired[str | None]


class RegistrationBody(TypedDict):
    """A table that is registered over the API. `problem` is why it is not served. It is null if it is served.

    `entry` is what was said of the table.
    """

    entry: dict[str, Any]
    id: str
    problem: NotRequired[str | None]
    """Why the table is not served, such as a policy that is not in the configuration."""
    registered_at: str
    registered_by: str


class RegistrationPage(TypedDict):
    """One page of registered tables."""

    items: list[RegistrationBody]
    next: NotRequired[str | None]


class ReloadBody(TypedDict):
    """The result of reading the configuration again.

    If there are `problems`, the last good configuration stays in force. The keys of `needs_restart` have other
    values than at the start of the daemon, which reads them at its start only. `gone` are the ids and patterns of
    entries that the file no longer has: their tables are let go, if no other entry means them.
    """

    accepted: bool
    gone: list[str]
    needs_restart: list[str]
    problems: list[str]
    tables: int


class ReplicaBody(TypedDict):
    """A daemon on the store. `here` is the one that answers."""

    alive: bool
    here: bool
    id: str
    tables: int
    url: str


class ReplicaPage(TypedDict):
    """The replicas. There is one page."""

    items: list[ReplicaBody]
    next: NotRequired[str | None]


class RunBody(TypedDict):
    """One run. `rewrite_all`: it is a part of a rewrite of all files.

    `progress` is what its worker does now. It is null if no worker has the run.
    """

    created_at: str
    ended_at: str | None
    epoch: int
    figures: dict[str, int | float | str]
    id: str
    instant: str | None
    outcome: str | None
    progress: NotRequired[ProgressBody | None]
    reason: str
    requested_by: str
    rewrite_all: NotRequired[bool]
    run_seconds: float | None
    service: str
    started_at: str | None
    state: str
    step: Step | None
    table: str
    waits_for: str | None


class RunPage(TypedDict):
    """One page of runs."""

    items: list[RunBody]
    next: NotRequired[str | None]


class RunRequest(TypedDict):
    """What a run is asked for. Without a body the run does what the service finds due.

    `rewrite_all` rewrites all files that the table has now, in as many runs as that takes.
    """

    rewrite_all: NotRequired[bool]


class ServiceBody(TypedDict):
    """One service of a table: its backlog, its decision, its run."""

    active_run: str | None
    commits_since: int | None
    decision: DecisionBody | None
    pending: int


class ServiceExplanation(TypedDict):
    """One service of a table. `due_when` says its trigger in words, `window` the hours in which it may be planned.

    `approval`: what it would delete waits for an operator. `notes` say what it is going to do or to keep, for
    example how large its plans may be. `retries` is how often in a row its runs yielded or failed temporarily,
    and `retry_reason` is the reason of the last one. `priority` orders runs if slots are few: 0 is the default,
    and a higher priority comes first. `spark` is the profile with the workers that carry it out. `session` is the
    Spark configuration of the sessions of its runs. `forecast` is what a run would do now. Null while a deletion
    waits: the approval has the figures then.
    """

    active_run: ActiveRunExplanation | None
    approval: NotRequired[ApprovalExplanation | None]
    backlog: BacklogExplanation | None
    decision: DecisionExplanation | None
    due_when: str
    forecast: NotRequired[ForecastExplanation | None]
    last_run: EndedRunExplanation | None
    notes: list[str]
    pending: list[PlanExplanation]
    priority: NotRequired[int]
    retries: NotRequired[int]
    retry_reason: NotRequired[str | None]
    session: dict[str, str]
    spark: str
    window: str | None


class SettingBody(TypedDict):
    """One value that is in force.

    `source` is where it comes from: `table` (the entry of the table), `pattern ADDRESS`, `policy NAME`,
    `defaults`, `profile` or `built-in`. `place` is the file and the line, if it is written in the configuration.
    """

    place: NotRequired[str | None]
    source: str
    value: Any


class SourceBody(TypedDict):
    """A catalog, or a pattern of paths, as the daemon that answers has last listed it.

    `tables` is how many tables it found, and `ids` the first 1000 of them. `refused` are the tables that are not
    served, and `unlisted` the namespaces that could not be listed: at most 1000 of each. `failure` is why the
    last listing failed. What was found before it stays in force.
    """

    answered_at: str | None
    asked_at: str | None
    every_seconds: float
    failure: str | None
    ids: list[str]
    listing: bool
    name: str
    refused: list[RefusedTableBody]
    refused_tables: int
    tables: int
    unlisted: list[RefusedTableBody]


class SourcePage(TypedDict):
    """One page of sources."""

    items: list[SourceBody]
    next: NotRequired[str | None]


class TableBody(TypedDict):
    """One registered table as the daemon sees it. The values of the table are null until it was observed.

    `owner` is the replica that owns it. Other replicas do not observe it.
    """

    contact: str | None
    failure: str | None
    faults: list[str]
    format: str
    id: str
    kind: str | None
    labels: dict[str, str]
    latest_instant: str | None
    mode: str
    name: str | None
    observed_at: str | None
    observed_seconds_ago: float | None
    owner: str | None
    path: str
    paused: str | None
    poll_seconds: float
    services: dict[str, ServiceBody]
    version: str | None
    warnings: list[str]
    writers: WritersExplanation | None


class TableExplanation(TypedDict):
    """The state of a table, and why its services run or do not.

    `poll_seconds` is the setting. `polled_every_seconds` is longer while hooks announce each commit of a table in
    an object store or a catalog. `sources` says where the values come from, by their keys in the configuration.
    """

    blockers: list[BlockerExplanation]
    explained_at: str
    failure: str | None
    faults: list[str]
    format: str
    inner: list[InnerTableExplanation]
    kind: str | None
    latest_instant: str | None
    lock: NotRequired[LockExplanation | None]
    mode: str
    name: str | None
    observed_seconds_ago: float | None
    path: str
    paused: str | None
    poll_seconds: float
    polled_every_seconds: NotRequired[float | None]
    services: dict[str, ServiceExplanation]
    sources: NotRequired[dict[str, str]]
    table: str
    version: str | None
    warnings: list[str]
    writers: WritersExplanation | None


class TablePage(TypedDict):
    """One page of tables."""

    items: list[TableBody]
    next: NotRequired[str | None]


class WaitingBody(TypedDict):
    """A deletion that waits for an approval."""

    asked_at: str
    files: int
    service: str
    table: str


class WouldRunBody(TypedDict):
    """What the runs of a service would do together, on all tables with a mode that holds them back.

    Counts that are not known are left out. `unknown` tables have no earlier run to go by, so `seconds` and
    `core_seconds` leave them out.
    """

    core_seconds: float
    delete_bytes: int
    delete_files: int
    read_bytes: int
    read_files: int
    seconds: float
    service: str
    tables: int
    unknown: int
    versions: int
    write_files: int


class WriteExplanation(TypedDict):
    """A write in flight. `guarded_until` is when the heartbeat of its writer runs out, or null without a heartbeat."""

    begun_at: str
    guarded_until: str | None
    instant: str


class WriteFailureExplanation(TypedDict):
    """A write that did not become a commit. `near_run` is the run of ours with the plan or commit that it met.

    Such a failure counts against us until it is explained.
    """

    at: str
    instant: str
    near_run: str | None
    reason: str


class WriterOptionBody(TypedDict):
    """One option and the reason for it. A key with leading dashes is a flag of the command line. `shared`: writers
    need it without Lakewarden, too, as long as several of them write. `optional`: it weakens a guarantee, so the
    owner of the writer decides.
    """

    key: str
    optional: NotRequired[bool]
    shared: NotRequired[bool]
    value: str
    why: str


class WriterOptionsBody(TypedDict):
    """The options of one engine. Options with the same reason stand together.

    `worst_lock_hold_seconds` is null if no run of ours was measured yet. Then waits for a lock have the shortest
    safe value. `ours` are the services with a policy on the table, and `left_to_writer` are the others.
    """

    engine: str
    left_to_writer: list[str]
    mode: Mode
    options: list[WriterOptionBody]
    ours: list[str]
    table: str
    worst_lock_hold_seconds: float | None


class WritersExplanation(TypedDict):
    """What the writers of the table are doing. `non_blocking`: they check no conflicts, and compaction waits for
    none.
    """

    failures: list[WriteFailureExplanation]
    in_flight: list[WriteExplanation]
    last_commit_at: str | None
    non_blocking: bool
    usual_interval_seconds: float | None
