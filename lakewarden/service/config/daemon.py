"""The settings of the daemon itself: its folders, logs, ports and limits."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within
from lakewarden.service.config.identity import TlsSettings

HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - users may write this; it is no default


class LogFormat(StrEnum):
    """How the lines of the log look."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The lowest level of the log that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class DaemonSettings(Settings):
    """The control plane."""

    data_dir: Path = Path("lakewarden-data")
    """The folder of the store, of the logs of workers and of their scratch files. One daemon owns it, by a lock. A
    relative path counts from the configuration file.
    """

    drain: Annotated[Duration, Within("0s", "1d")] = Field(default="60s", validate_default=True)
    """After SIGTERM active runs may go on for this long. The next start takes interrupted runs up again. Zero
    is safe.
    """

    watch_configuration: Annotated[Duration, Within("0s", "1h")] = Field(default="0s", validate_default=True)
    """How often the configuration file is looked at. If it has changed, it is read again, as by `lakewarden reload`.
    Zero: it is read again on request only.
    """

    keep_runs: Annotated[Duration, Within("1h", "3650d")] = Field(default="30d", validate_default=True)
    """Ended runs are deleted after this long. The last run of each table and service stays."""

    keep_audit: Annotated[Duration, Within("1h", "3650d")] = Field(default="365d", validate_default=True)
    """Acts of persons and programs are deleted from the audit log after this long."""

    lease: Annotated[Duration, Within("10s", "1h")] = Field(default="30s", validate_default=True)
    """If the database has not heard from a replica for this long, the replica is dead: another one takes over its
    tables and runs. After two thirds of this time the replica has killed its own workers. With a shorter lease work
    moves sooner. With a longer lease the database may be away for longer. At least 10s. On SQLite no replica takes
    over, and workers live this long without their daemon.
    """


class LogSettings(Settings):
    """The log of the daemon, on standard error. Each line is one event with its facts."""

    format: LogFormat = LogFormat.AUTO
    """`json` writes one JSON object a line, `text` writes lines for people. `auto` writes text on a terminal, and JSON
    otherwise.
    """

    level: LogLevel = LogLevel.INFO
    """The lowest level that is written: `debug`, `info`, `warning` or `error`."""

    workers: bool = False
    """`true`: the lines of the session workers and of their JVMs are written to this log too, as events `worker_line`.
    The files of the workers in data_dir have them in any case.
    """


class ListenSettings(Settings):
    """The address of a server."""

    host: str = "127.0.0.1"
    """The address to listen on. A daemon that listens on another address than a loopback address needs
    `access.authentication: keys`.
    """

    port: Annotated[int, Within(1, 65_535)]
    """The TCP port."""

    tls: TlsSettings | None = None
    """The certificate of the port. Without it the port speaks HTTP without TLS."""


class ApiSettings(ListenSettings):
    """The API and the hooks."""

    port: Annotated[int, Within(1, 65_535)] = 8080
    """The TCP port of the REST API and of the commit hooks."""

    public_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/@]+(/\S*)?$", examples=["https://lakewarden.example.com"]
    )
    """The address at which writers and operators reach the API, for example `http://lakewarden.data.svc:8080`. The
    default is the host and the port. `lakewarden writer-options` tells writers to announce their commits there.
    """

    peer_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/@]+(/\S*)?$", examples=["https://lakewarden.example.com"]
    )
    """The address at which other replicas reach this one. `{hostname}` in it is the name of the machine, which in
    Kubernetes is that of the pod: `http://{hostname}.lakewarden-management.data.svc:8080`. The default is public_url,
    and without it the name of the machine and the port.
    """

    allowed_hosts: tuple[HostName, ...] = ()
    """Further names under which browsers reach the API, for example `lakewarden.example.com`. Requests of pages with
    other names are refused. Addresses, the name in public_url, the name of the machine and names of a Kubernetes
    Service need not be listed here.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names under which browsers may reach the API."""
        public = urlsplit(self.public_url or "").hostname
        peer = urlsplit(self.peer if self.peer_url else "").hostname
        return (*self.allowed_hosts, *([public] if public else []), *([peer] if peer else []))

    @property
    def peer(self) -> str:
        """Return the address of this replica for the others."""
        if self.peer_url is None:
            return self.url
        return self.peer_url.replace("{hostname}", socket.gethostname()).rstrip("/")

    @property
    def url(self) -> str:
        """Return the address of the API for others. A server that listens on all addresses has the name of its
        machine.
        """
        host = socket.gethostname() if self.host in _EVERYWHERE else self.host
        scheme = "http" if self.tls is None else "https"
        return (self.public_url or f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}").rstrip("/")


class ManagementSettings(ListenSettings):
    """Probes and metrics. They are separate from the API, so a flood of requests cannot fail a probe."""

    port: Annotated[int, Within(1, 65_535)] = 8081
    """The TCP port of /livez, /readyz and /metrics."""

    table_series: Annotated[int, Within(0, 10_000)] = 500
    """How many tables have series of their own in /metrics. If there are more tables, the ones that most need an
    operator have them. The others are summed up under `table="_other"`. A table has about 20 series.
    """


class PermitSettings(Settings):
    """How long runs wait for the permit to change a table."""

    max_wait_for_writers: Annotated[Duration, Within("0s", "1d")] = Field(default="5m", validate_default=True)
    """A compaction is planned in a moment without a write in flight. If there is none for this long, it is planned
    beside a write if the format allows that. Otherwise it is withdrawn.
    """

    max_wait_to_commit: Annotated[Duration, Within("1s", "1d")] = Field(default="10m", validate_default=True)
    """A commit waits this long for a clean or a write in flight. Then the run yields, and its plan stays pending."""

    joined_step: Annotated[Duration, Within("1m", "7d")] = Field(default="30m", validate_default=True)
    """If no Spark task of a step that cannot be interrupted (a clean, a clustering) ends for this long, its JVM is
    killed.
    """

    step: Annotated[Duration, Within("1m", "7d")] = Field(default="2h", validate_default=True)
    """If no Spark task of any other step ends for this long, the step is cancelled and counts as a failure. It hangs,
    for example at a lock that is never released, or at a storage that does not answer.
    """


class Asking(StrEnum):
    """Whether an operator is asked."""

    ASK = "ask"
    ALLOW = "allow"


class BudgetSettings(Settings):
    """The most that one run may delete without an approval."""

    files: Annotated[int, Within(0, 1_000_000_000)] | None = Field(default=100_000, examples=[100_000])
    """Data files. A clean, ttl or orphans that would delete more waits for an approval."""

    percent: Annotated[float, Within(0, 100)] | None = Field(default=99.99, examples=[50])
    """A share of the data files of the table, with those of old versions. An ordinary clean may delete nearly all of
    them, because a compaction leaves one file of a hundred log files. A deletion beyond the default leaves almost
    nothing. The files are counted only as far as necessary, so a small deletion from a large table costs little.
    """

    partitions: Annotated[int, Within(0, 1_000_000)] | None = 100
    """Partitions that are deleted as a whole."""

    first_clean: Asking = Asking.ASK
    """The first clean of a table by Lakewarden that deletes data files. `ask`: it waits for an approval of its numbers.
    `allow`: it needs none within the rest of the budget.
    """

    shorter_retention: Asking = Asking.ASK
    """A clean with a policy that keeps less than the table's writers kept: less than their newest clean (Hudi), or than
    the properties of the table say (Iceberg). Readers may count on the rest. `ask`: it waits for an approval. `allow`:
    the policy counts.
    """


# The settings of traces.


class TraceSettings(Settings):
    """Traces of the runs, for an OpenTelemetry collector. They need the extra `otel`."""

    endpoint: str | None = Field(
        default=None, pattern=r"^https?://[^\s/@]+(/\S*)?$", examples=["https://lakewarden.example.com"]
    )
    """Where the spans are sent by OTLP/HTTP, for example `http://collector:4318/v1/traces`. Without it there are no
    traces. Headers and certificates come from the environment: `OTEL_EXPORTER_OTLP_HEADERS`,
    `OTEL_EXPORTER_OTLP_CERTIFICATE`. `OTEL_RESOURCE_ATTRIBUTES` describes the daemon. If the collector is away, spans
    are dropped, and runs go on.
    """


# The settings of the history: decisions and the logs of runs.


class HistorySettings(Settings):
    """The past that operators can read: what was decided, and the logs of runs."""

    keep: Annotated[Duration, Within("1h", "3650d")] = Field(default="30d", validate_default=True)
    """Changes of decisions are deleted after this long. A decision that still holds stays."""

    run_log: Annotated[Size, Within("16KiB", "64MiB")] = Field(default="1MiB", validate_default=True)
    """So much of the log of one run is kept: its first lines, and its last lines."""

    run_logs: Annotated[Size, Within("1MiB", "1TiB")] = Field(default="1GiB", validate_default=True)
    """So much of the logs of all runs is kept in data_dir. The oldest are deleted first. A log is also deleted if its
    last line is older than `daemon.keep_runs`.
    """


# Which keys of the configuration are read again while the daemon runs, and which at its start only.

RELOADED = ("defaults", "policies", "tables")
"""The keys that are read again. All others are read at the start: ports, the store, workers, stores and catalogs."""


def at_start(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a document that are read at the start only."""
    return {key: value for key, value in written.items() if key not in RELOADED}


def merged(started_with: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document that a running daemon obeys: the new tables, and everything else as at its start."""
    return {**at_start(started_with), **{key: value for key, value in written.items() if key in RELOADED}}


def changed_keys(started_with: Mapping[str, Any], written: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys with another value than at the start of the daemon, such as `api.port`."""
    before, now = at_start(started_with), at_start(written)
    keys = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            keys += [f"{key}.{below}" for below in sorted({*old, *new}) if old.get(below) != new.get(below)]
        else:
            keys.append(key)
    return tuple(keys)
