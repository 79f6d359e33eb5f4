"""Every setting of the daemon, with its meaning, its default and what follows from it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator

from lakewarden.executors.profile import SessionKey, SparkProfile
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Scheduling
from lakewarden.planners.settings import Duration, Settings, Size, Within
from lakewarden.planners.storage.settings import StoreSetting, StoreSettings
from lakewarden.service.config.http_limits import LimitSettings
from lakewarden.service.config.reading import ReadingSettings
from lakewarden.service.config.trigger import TriggerSetting
from lakewarden.service.config.window import WindowSettings
from lakewarden.service.store.settings import DatabaseSettings

TABLE_ID = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$"
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]
CatalogName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
ProfileName = CatalogName
"""It names a folder of data_dir, too."""

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what users may write, not what we listen on


class DaemonSettings(Settings):
    """The control plane."""

    data_dir: Path = Path("lakewarden-data")
    """Where the store, the workers' logs and their scratch files are. One daemon owns it, by a lock. A relative
    path counts from the configuration file."""

    drain: Annotated[Duration, Within("0s", "1d")] = Field(default="60s", validate_default=True)
    """After SIGTERM, running work may finish for this long; what is cut off then is taken up again at the next
    start. Zero is safe."""

    keep_runs: Annotated[Duration, Within("1h", "3650d")] = Field(default="30d", validate_default=True)
    """Ended runs are forgotten after this long; the last one of each table and service stays."""

    lease: Annotated[Duration, Within("10s", "1h")] = Field(default="30s", validate_default=True)
    """A replica whose database has not heard of it for this long is dead: another one takes its tables and runs over.
    By two thirds of it, it has killed its own workers. Shorter moves work sooner; longer bears a database that is away
    for longer. At least 10s. On SQLite nobody takes over, and workers live as long without their daemon."""


class ListenSettings(Settings):
    """Where a server listens."""

    host: str = "127.0.0.1"
    """The address to listen on. There is no authentication yet: anything but the loopback address is for
    networks where everybody may trigger and pause."""

    port: Annotated[int, Within(1, 65_535)]
    """The TCP port."""


class ApiSettings(ListenSettings):
    """The API and the hooks."""

    port: Annotated[int, Within(1, 65_535)] = 8080
    """The TCP port of the REST API and of the commit hooks."""

    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Where writers and people reach the API, as in `http://lakewarden.data.svc:8080`; by default the host and port.
    `lakewarden writer-options` tells writers to announce their commits there."""

    allowed_hosts: tuple[HostName, ...] = ()
    """Further names by which people's browsers reach the API, as in `lakewarden.example.com`: a page of another name
    could be anybody's, and is refused. Addresses, the name in public_url, the machine's own name and names of a
    Kubernetes Service need not stand here."""

    limits: LimitSettings = LimitSettings()
    """What clients may have of the port."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names by which browsers may know the API."""
        public = urlsplit(self.public_url or "").hostname
        return (*self.allowed_hosts, *([public] if public else []))

    @property
    def url(self) -> str:
        """Return the API's address for others: a server that listens everywhere is known by its machine's name."""
        host = socket.gethostname() if self.host in _EVERYWHERE else self.host
        return (self.public_url or f"http://{f'[{host}]' if ':' in host else host}:{self.port}").rstrip("/")


class HookSettings(Settings):
    """A port for the commit hooks alone, so that writers need not reach the API."""

    port: Annotated[int, Within(1, 65_535)] | None = None
    """The TCP port of the commit hooks; by default they are taken at the API's, which takes none where they have their
    own."""

    host: str | None = None
    """The address to listen on; by default the API's."""

    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Where writers reach the hooks, if they have a port of their own; by default the API's host and this port."""

    limits: LimitSettings = LimitSettings()
    """What writers may have of a port of their own."""

    def url(self, api: ApiSettings) -> str:
        """Return the hooks' address for writers."""
        if self.port is None:
            return api.url
        own = api.model_copy(update={"host": self.host or api.host, "port": self.port, "public_url": self.public_url})
        return own.url


class ManagementSettings(ListenSettings):
    """Probes and metrics, apart from the API so that a flood of requests cannot fail a probe."""

    port: Annotated[int, Within(1, 65_535)] = 8081
    """The TCP port of /livez, /readyz and /metrics."""


class PermitSettings(Settings):
    """How long runs wait for leave to change a table."""

    writer_patience: Annotated[Duration, Within("0s", "1d")] = Field(default="5m", validate_default=True)
    """A compaction is planned in a moment without a write in flight. Where there is none for this long, it is
    planned beside one if the format can bear it, and else withdrawn."""

    commit_patience: Annotated[Duration, Within("1s", "1d")] = Field(default="10m", validate_default=True)
    """A commit waits this long for a clean or a write in flight, then the run yields; its plan stays pending."""

    joined_step: Annotated[Duration, Within("1m", "7d")] = Field(default="30m", validate_default=True)
    """A step that nobody can stop half-way (a clean, a clustering) and that stands still for this long, none of its
    Spark tasks ending, is ended by killing its JVM."""

    step: Annotated[Duration, Within("1m", "7d")] = Field(default="2h", validate_default=True)
    """Any other step that stands still for this long is cancelled, and counts as a failure: it hangs, at a lock that is
    never released or at a storage that does not answer."""

    longest_step: Annotated[Duration, Within("1m", "30d")] = Field(default="1d", validate_default=True)
    """A step that takes this long is ended although it goes on: it may be beginning the same again and again."""

    slowest: Annotated[Size, Within("1KiB", "1TiB")] = Field(default="1MiB", validate_default=True)
    """So much of a plan is rewritten in a second at least. Its largest file groups lengthen how long a step may stand
    still, and all of them how long it may take."""


class BudgetSettings(Settings):
    """The most that one run may delete without approval."""

    files: Annotated[int, Within(0, 1_000_000_000)] | None = 100_000
    """Data files. A clean, ttl or orphans that would delete more waits for approval."""

    percent: Annotated[float, Within(0, 100)] | None = 99.99
    """A share of the table's data files, those of old versions among them. An ordinary clean may well delete nearly all
    of them: a compaction leaves one file of a hundred log files. What meets the default leaves next to nothing. The
    files are counted as far as it takes to judge: a small deletion from a large table costs little."""

    partitions: Annotated[int, Within(0, 1_000_000)] | None = 100
    """Partitions that are deleted as a whole."""


class Defaults(Settings):
    """What holds for every table that does not say otherwise."""

    mode: Mode = Mode.OBSERVE
    """`observe` only looks, `plan` also says what it would run, `act` runs it."""

    poll: Annotated[Duration, Within("100ms", "1d")] = Field(default="10s", validate_default=True)
    """How often a table's timeline is looked at, give or take a tenth. Hooks make it sooner."""

    spark: str = "default"
    """The `spark` profile whose workers serve the table."""

    budget: BudgetSettings = BudgetSettings()
    """The most that one run may delete without a person's approval."""


class ServiceSettings(Settings):
    """The policy of one service of one table."""

    trigger: TriggerSetting | None = None
    """When it is due: num_commits, num_commits_after_last_request, time_elapsed, log_files, log_bytes, small_files, or
    all_of / any_of of these. By default 5 commits for a compaction, 1 for a clean."""

    schedule: Scheduling = Scheduling.DAEMON
    """Whose plans are executed: `daemon` (ours), `writer` (its writers plan, we execute), `both`."""

    grace: Annotated[Duration, Within("1s", "30d")] = Field(default="10m", validate_default=True)
    """How long a plan of another author is left to it before we take it up."""

    window: WindowSettings | None = None
    """The hours in which it may be planned; by default always."""

    asynchronous: bool = Field(default=True, alias="async")
    """Clean only. `true`: it runs beside a compaction and is waited for before its commit. `false`: it runs after each
    compaction instead, and needs no trigger."""

    priority: Annotated[int, Within(-100, 100)] | None = None
    """How far in front it stands where slots are few; by default as its table. A clustering or a log compaction begins
    nothing while a compaction of its table waits, unless it stands further in front."""

    spark: str | None = None
    """The `spark` profile whose workers carry it out; by default the table's. A large clustering may so have a JVM with
    more memory, or a cluster, and take no slot from the others."""

    session: dict[SessionKey, str] = Field(default_factory=dict)
    """Spark configuration of the session of its runs, over the profile's: what Spark lets each session say for itself,
    as `spark.sql.shuffle.partitions`. Memory and cores are a JVM's, and so the profile's."""

    options: dict[str, Any] = Field(default_factory=dict)
    """The service's options in the format's own terms."""


class CatalogEntry(Settings):
    """One catalog: its format, and beside it the catalog's settings in the format's own terms."""

    model_config = ConfigDict(extra="allow")

    format: str
    """Whose tables it knows: `hudi` or `iceberg`."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return what is in the format's own terms."""
        return self.model_extra or {}


class CareSettings(Settings):
    """How a table is looked after."""

    mode: Mode | None = None
    """Trust, given in steps; see defaults."""

    poll: Annotated[Duration, Within("100ms", "1d")] | None = None
    """The cadence; see defaults."""

    spark: str | None = None
    """The `spark` profile; see defaults."""

    budget: BudgetSettings | None = None
    """The deletion budget; see defaults."""

    priority: Annotated[int, Within(-100, 100)] = 0
    """Whose services start first where slots are few: those of the table with the higher one. Each ten minutes of
    waiting are worth one, so that nothing waits for ever."""

    options: dict[str, Any] = Field(default_factory=dict)
    """What the table does not say of itself, in the format's own terms: for Hudi above all the writers' lock."""

    services: dict[Service, ServiceSettings] = Field(default_factory=dict)
    """The table services that Lakewarden takes care of, each with its policy."""

    @field_validator("services", mode="before")
    @classmethod
    def _all_defaults(cls, value: Any) -> Any:
        """Read `compaction:` with nothing behind it as a policy of defaults."""
        if isinstance(value, dict):
            return {service: {} if policy is None else policy for service, policy in value.items()}
        return value


class TableSettings(CareSettings):
    """One table."""

    id: str = Field(pattern=TABLE_ID)
    """The table's name in the API, in metrics and in logs."""

    format: str
    """What the table is: the word of a format, as `hudi` or `iceberg`."""

    path: str
    """Where the table is: an absolute path, an address with a scheme, or, for formats that have catalogs,
    `catalog://<name>/<namespace>.<table>` with a name of `catalogs`."""


class DiscoverySettings(CareSettings):
    """The tables of a catalog that are registered without being listed: their ids are `<catalog>.<namespace>.<table>`.

    A table that is listed under `tables` too is only what it is there. In `options`, `{namespace}` and `{table}` stand
    for the names of each table: `lock_key: "{table}"`.
    """

    catalog: str
    """A name of `catalogs`."""

    tables: str = "*"
    """Which of its tables, by a pattern with `*` and `?` for `<namespace>.<table>`."""

    exclude: tuple[str, ...] = ()
    """Patterns of tables that are left out."""

    every: Annotated[Duration, Within("1s", "1d")] = Field(default="10m", validate_default=True)
    """How often the catalog is asked for its tables. New ones are attended from then on, and dropped ones no longer. Of
    several entries for one catalog the shortest counts."""


class Configuration(Settings):
    """The whole file."""

    daemon: DaemonSettings = DaemonSettings()
    """The control plane."""

    api: ApiSettings = ApiSettings()
    """The REST API and the commit hooks."""

    hooks: HookSettings = HookSettings()
    """The commit hooks' own port, if they have one."""

    management: ManagementSettings = ManagementSettings()
    """Probes and metrics."""

    database: DatabaseSettings = DatabaseSettings()
    """Where runs, leases and decisions are kept."""

    permits: PermitSettings = PermitSettings()
    """How long runs wait for leave to change a table."""

    reading: ReadingSettings = ReadingSettings()
    """The processes in which tables are read."""

    storage: tuple[StoreSetting, ...] = ()
    """How stores are reached, each by its prefix; without an entry, by what the environment says."""

    spark: dict[ProfileName, SparkProfile] = Field(default_factory=lambda: {"default": SparkProfile()})
    """Pools of session workers, by name."""

    defaults: Defaults = Defaults()
    """What holds for every table that does not say otherwise."""

    catalogs: dict[CatalogName, CatalogEntry] = Field(default_factory=dict)
    """The catalogs in which tables are found, by name."""

    tables: tuple[TableSettings, ...] = ()
    """The tables."""

    discover: tuple[DiscoverySettings, ...] = ()
    """Which tables of a catalog are registered by themselves. Where several entries fit a table, the first counts."""

    @field_validator("catalogs")
    @classmethod
    def _not_sparks_own(cls, value: dict[str, CatalogEntry]) -> dict[str, CatalogEntry]:
        if "spark_catalog" in value:
            raise ValueError("spark_catalog is Spark's own: give the catalog another name")
        return value

    @field_validator("storage")
    @classmethod
    def _each_prefix_once(cls, value: tuple[StoreSettings, ...]) -> tuple[StoreSettings, ...]:
        prefixes = [store.prefix for store in value]
        twice = next((prefix for prefix in prefixes if prefixes.count(prefix) > 1), None)
        if twice is not None:
            raise ValueError(f"the prefix {twice} stands here more than once")
        return value
