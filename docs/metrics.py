"""The page of the metrics, from their definitions: `python -m docs.metrics` writes `metrics.md` anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import Metric

from docs.nothing import empty_room
from lakewarden.executors.contract import WorkerEnd
from lakewarden.planners.services import SERVICES
from lakewarden.service.reporting.metrics import Metrics
from lakewarden.service.reporting.metrics.families import FAMILIES

PAGE = Path(__file__).parent / "metrics.md"

LABELS: Mapping[str, str] = {
    "decision": "the name of a decision: `Due`, `NotDue`, `WouldRun`, `Blocked`, `DoesNotApply`; `Undecided` before "
    "the first one",
    "format": "the format of the tables",
    "inner": "the format's name for the inner table: `metadata table`",
    "kind": "why a port refused a connection or a request",
    "near_us": "`true` if the failed write met a plan or a commit of Lakewarden, else `false`",
    "outcome": "how a run ended",
    "port": "a port of the daemon",
    "reader": "the name of an incremental reader, as `options.readers` of the table declares it, or `_other`",
    "reason": f"why the process ended; of a session worker: {', '.join(f'`{end}`' for end in WorkerEnd)}",
    "result": "what became of a hook ([writers.md](writers.md#hooks))",
    "run_state": "the state of a run that has not ended",
    "sender": "the kind of sender of a hook",
    "service": "a table service",
    "source": "the name of a catalog, or a pattern of paths",
    "spark": "the name of a profile in `spark` of the configuration",
    "state": "of a slot: `free`, `used` or `resting`",
    "table": "the id of a table, or [`_other`](#many-tables)",
    "version": "the version",
}
"""What each label says. Values that are known beforehand are added by the page."""

_HEAD = """\
# Metrics

<!-- Written by `python -m docs.metrics` from the definitions in the code. Do not edit. -->

The daemon exports these metrics at `/metrics` on the management port (8081), in the text format of Prometheus.
[observe.md](observe.md#alerts-and-the-dashboard) has the scrape configuration, the alerts and the dashboard.

The name of a metric ends with its unit. A histogram has the series `_bucket`, `_sum` and `_count`. Each counter and
each histogram has its series from the start. A gauge of a table has a series only while its value is known. With
several replicas, each one exports what it knows. Only the owner of a table knows its backlogs and its writes. The
metrics `process_*` are of the daemon's own process, without its workers.

"""

_MANY = """\

## Many tables

At most `management.table_series` tables (500) have series of their own. The others are together under
`table="_other"`. The tables that most need an operator come first: by what an operator has to act on, then by the age
of the oldest pending instant, then by the bytes of the backlog. The choice is made again every minute.

The column `_other` says how the values of several tables become one. A `sum` over all series does not depend on the
limit: `sum by (service) (lakewarden_table_pending_instants)` is right with any number of tables. Metrics with the
labels `service` and `format`, and without `table`, are about all tables and exact with any limit.
"""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """One metric, by the name under which its samples are scraped."""

    name: str
    type: str
    labels: Sequence[str]
    meaning: str


def exported() -> Sequence[Exported]:
    """Return every metric of the daemon by its name, whether it has a series or not."""
    return sorted(_exported(_watched()), key=lambda metric: metric.name)


def values() -> Mapping[str, Sequence[str]]:
    """Return the values of each label that are known before anything happened."""
    found: dict[str, set[str]] = {}
    for family in _watched().registry.collect():
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label not in ("le", "version"):
                    found.setdefault(label, set()).add(value)
    return {label: sorted(known) for label, known in found.items()}


def text() -> str:
    """Return the page."""
    metrics = exported()
    known = values()
    folds = {family.name: family.fold.value for family in FAMILIES} | {"lakewarden_writer_failures_total": "sum"}
    rows = [f"| `{m.name}` | {m.type} | {_listed(m.labels)} | {folds.get(m.name, '')} | {m.meaning} |" for m in metrics]
    labels = [
        f"| `{label}` | {LABELS[label]} | {_listed(known.get(label, ()))} |"
        for label in sorted({label for metric in metrics for label in metric.labels})
    ]
    table = ["| metric | type | labels | `_other` | meaning |", "|---|---|---|---|---|", *rows]
    explained = ["| label | what it says | values known beforehand |", "|---|---|---|", *labels]
    return _HEAD + "\n".join([*table, "", "## Labels", "", *explained, ""]) + _MANY


def _watched() -> Metrics:
    metrics = Metrics(SERVICES)
    metrics.watch(empty_room().status)
    return metrics


def _exported(metrics: Metrics) -> Iterator[Exported]:
    # The client library tells the label names of a metric without a series nowhere else.
    for collector in metrics.registry._collector_to_names:  # noqa: SLF001
        for family in collector.collect():
            named = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            yield Exported(
                name=_scraped(family),
                type=family.type,
                labels=tuple(named) or tuple(family.samples[0].labels if family.type == "info" else ()),
                meaning=family.documentation,
            )


def _scraped(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
