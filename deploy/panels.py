"""The panels of the dashboard: what an operator of many tables looks at, the most urgent first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_TABLE = 'table=~"$table"'


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel. `queries` are pairs of an expression and the legend of its series."""

    title: str
    meaning: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    red_from: float | None = None
    """The value from which a number is shown in red."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A title, and the panels below it."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)


def _stat(title: str, meaning: str, query: str, *, unit: str = "short", red_from: float | None = None) -> Panel:
    return Panel(
        title=title,
        meaning=meaning,
        queries=[(query, "")],
        kind="stat",
        unit=unit,
        width=4,
        height=4,
        red_from=red_from,
    )


ROWS = (
    Row(
        title="At a glance",
        panels=[
            _stat(
                "Writes that failed near us",
                "Within a day. The goal is 0.",
                'sum(increase(lakewarden_writer_failures_total{near_us="true"}[1d]))',
                red_from=1,
            ),
            _stat("Daemons", "Replicas with a valid lease.", "max(lakewarden_replicas)"),
            _stat("Not ready", "Daemons that are not ready.", "sum(1 - lakewarden_ready)", red_from=1),
            _stat("Tables", "Tables that have an owner.", "sum(lakewarden_tables_owned)"),
            _stat(
                "In quarantine",
                "Services that an operator must release.",
                "sum(lakewarden_table_service_quarantined)",
                red_from=1,
            ),
            _stat(
                "Approvals that wait",
                "Deletions that wait for an operator.",
                "sum(lakewarden_table_approvals_waiting)",
                red_from=1,
            ),
        ],
    ),
    Row(
        title="Debt",
        panels=[
            Panel(
                title="Backlog",
                meaning="Bytes that wait to be rewritten.",
                queries=[("sum by (service, format) (lakewarden_backlog_bytes)", "{{service}} {{format}}")],
                unit="bytes",
            ),
            Panel(
                title="Commits since a service ran",
                meaning="Of all tables together.",
                queries=[("sum by (service, format) (lakewarden_backlog_commits)", "{{service}} {{format}}")],
            ),
            Panel(
                title="Oldest pending instant",
                meaning="A plan that stays pending holds back other services.",
                queries=[
                    ("max by (service, format) (lakewarden_oldest_pending_age_seconds)", "{{service}} {{format}}")
                ],
                unit="s",
            ),
            Panel(
                title="Tables with the most to rewrite",
                meaning="The ten largest backlogs of the chosen tables.",
                queries=[
                    (
                        f"topk(10, max by (table, service) (lakewarden_table_backlog_bytes{{{_TABLE}}}))",
                        "{{table}} {{service}}",
                    )
                ],
                unit="bytes",
                width=12,
            ),
            Panel(
                title="Small files",
                meaning="Base files that a rewrite could join, of the chosen tables.",
                queries=[(f"topk(10, max by (table) (lakewarden_table_small_files{{{_TABLE}}}))", "{{table}}")],
                width=12,
            ),
        ],
    ),
    Row(
        title="Runs",
        panels=[
            Panel(
                title="Runs that ended",
                meaning="A minute, by outcome.",
                queries=[("sum by (outcome) (rate(lakewarden_runs_total[$__rate_interval])) * 60", "{{outcome}}")],
            ),
            Panel(
                title="Runs that have not ended",
                meaning="By service and state.",
                queries=[("sum by (service, run_state) (lakewarden_active_runs) > 0", "{{service}} {{run_state}}")],
            ),
            Panel(
                title="Slots",
                meaning="Of the session pools.",
                queries=[("sum by (spark, state) (lakewarden_pool_slots)", "{{spark}} {{state}}")],
            ),
            Panel(
                title="Duration of runs",
                meaning="95 of 100 runs are shorter.",
                queries=[
                    (
                        "histogram_quantile(0.95, sum by (service, le) "
                        "(rate(lakewarden_run_duration_seconds_bucket[$__rate_interval])))",
                        "{{service}}",
                    )
                ],
                unit="s",
            ),
            Panel(
                title="Wait for a slot",
                meaning="95 of 100 runs wait less.",
                queries=[
                    (
                        "histogram_quantile(0.95, sum by (service, le) "
                        "(rate(lakewarden_queue_wait_seconds_bucket[$__rate_interval])))",
                        "{{service}}",
                    )
                ],
                unit="s",
            ),
            Panel(
                title="Work",
                meaning="Bytes rewritten and removed, a second.",
                queries=[
                    (
                        "sum by (service) (rate(lakewarden_rewritten_bytes_total[$__rate_interval]))",
                        "rewritten {{service}}",
                    ),
                    (
                        "sum by (service) (rate(lakewarden_removed_bytes_total[$__rate_interval]))",
                        "removed {{service}}",
                    ),
                ],
                unit="Bps",
            ),
        ],
    ),
    Row(
        title="Writers",
        panels=[
            Panel(
                title="Writes that failed",
                meaning="Within an hour. `near_us` is true if the write met a plan or a commit of Lakewarden.",
                queries=[
                    (
                        f"sum by (table, near_us) (increase(lakewarden_writer_failures_total{{{_TABLE}}}[1h])) > 0",
                        "{{table}} near_us={{near_us}}",
                    )
                ],
            ),
            Panel(
                title="Longest hold of a lock",
                meaning="Writers wait meanwhile. 95 of 100 holds are shorter.",
                queries=[
                    (
                        "histogram_quantile(0.95, sum by (service, le) "
                        "(rate(lakewarden_lock_hold_seconds_bucket[$__rate_interval])))",
                        "{{service}}",
                    )
                ],
                unit="s",
            ),
            Panel(
                title="Hooks",
                meaning="Commits that writers announced, a minute.",
                queries=[
                    (
                        "sum by (sender, result) (rate(lakewarden_hooks_total[$__rate_interval])) * 60 > 0",
                        "{{sender}} {{result}}",
                    )
                ],
            ),
        ],
    ),
    Row(
        title="The daemon",
        panels=[
            Panel(
                title="Age of the last poll",
                meaning="The ten oldest of the chosen tables.",
                queries=[(f"topk(10, max by (table) (lakewarden_table_poll_age_seconds{{{_TABLE}}}))", "{{table}}")],
                unit="s",
            ),
            Panel(
                title="Lease and store",
                meaning="A lost lease kills the workers of a daemon.",
                queries=[
                    ("sum by (instance) (increase(lakewarden_lease_losses_total[1h]))", "losses {{instance}}"),
                    (
                        "sum by (instance) (increase(lakewarden_lease_renew_failures_total[5m]))",
                        "late renewals {{instance}}",
                    ),
                    ("min by (instance) (lakewarden_store_available)", "store answers {{instance}}"),
                ],
            ),
            Panel(
                title="Workers that ended",
                meaning="Within an hour, by reason.",
                queries=[
                    (
                        "sum by (spark, reason) (increase(lakewarden_worker_restarts_total[1h])) > 0",
                        "{{spark}} {{reason}}",
                    )
                ],
            ),
            Panel(
                title="Last turn of the control thread",
                meaning="Above a minute the daemon is restarted.",
                queries=[("max by (instance) (lakewarden_control_turn_age_seconds)", "{{instance}}")],
                unit="s",
            ),
            Panel(
                title="Refused requests",
                meaning="A minute, by port and kind.",
                queries=[
                    (
                        "sum by (port, kind) (rate(lakewarden_http_refused_total[$__rate_interval])) * 60 > 0",
                        "{{port}} {{kind}}",
                    )
                ],
            ),
            Panel(
                title="Tables by owner",
                meaning="Each table has one owner.",
                queries=[("sum by (instance) (lakewarden_tables_owned)", "{{instance}}")],
            ),
        ],
    ),
)
"""The rows of the dashboard, the most urgent first."""
