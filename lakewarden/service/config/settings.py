"""Every setting of the daemon, with its meaning, its default and its consequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.table import ActWhen, Mode
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.settings import StoreSetting, StoreSettings
from lakewarden.service.config.access import AccessSettings
from lakewarden.service.config.daemon import (
    ApiSettings,
    BudgetSettings,
    DaemonSettings,
    HistorySettings,
    LogSettings,
    ManagementSettings,
    PermitSettings,
    TraceSettings,
)
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.config.layers.routes import SparkRoutes, SparkSetting
from lakewarden.service.config.layers.service_settings import ServiceSettings
from lakewarden.service.store.settings import DatabaseSettings

TABLE_ID = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$"
OTHER_TABLES = "_other"
"""The name under which metrics sum up tables. No table has it as its id."""

CatalogName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
ProfileName = CatalogName
PolicyName = CatalogName
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9{][A-Za-z0-9_. @{}-]{0,99}$")]
CAN_BE_LEFT_OUT = frozenset({Check.HOOK, Check.HEARTBEATS, Check.READERS, Check.ALONE, Check.RETENTION})
"""The checks that a table may do without. The others protect its data."""

OFF = (False, "off", "no")
"""What switches off a service that a more general level has."""


class CatalogEntry(Settings):
    """One catalog: its format, and its settings in the terms of the format."""

    model_config = ConfigDict(extra="allow")

    format: str
    """The format of its tables: `hudi` or `iceberg`."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the settings in the terms of the format."""
        return self.model_extra or {}


class CareSettings(Settings):
    """The settings of a table. Each may come from `defaults`, a policy, a pattern, or the entry of the table. The more
    special one counts. Mappings are merged key by key.
    """

    mode: Mode | None = None
    """How far Lakewarden goes: `observe` (the default) only observes, `plan` says what it would run, `act` runs it."""

    act_when: ActWhen | None = None
    """When the mode `act` is in force: `at_once`, or `proved`: while each check of `lakewarden doctor TABLE` is ok.
    Until then the table is served as in the mode `plan`. The default is `at_once`.
    """

    proof_without: tuple[Check, ...] | None = None
    """The checks that the proof does without: `hook` if the writers announce no commits, `heartbeats`, `readers`,
    `alone` if another program may serve the table as well, `retention` if less may be kept than the writers kept.
    """

    poll: Annotated[Duration, Within("100ms", "1d")] | None = None
    """How often the table is polled, plus or minus a tenth. Hooks make it sooner. The default is 10s."""

    poll_with_hooks: Annotated[Duration, Within("1s", "1d")] | None = None
    """How often a remote table is polled while hooks announce each of its commits, if that is longer (60s)."""

    spark: SparkSetting | None = None
    """The `spark` profile with the workers that serve the table, or routes to several of them. The default is
    `default`.
    """

    budget: BudgetSettings | None = None
    """The most that one run may delete without an approval."""

    priority: Annotated[int, Within(-100, 100)] = 0
    """If slots are few, the services of the table with the higher priority start first. Each ten minutes of waiting add
    one, so no service waits for ever.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    """Facts that the table does not contain, in the format's terms. For Hudi this is above all the writers' lock."""

    services: dict[Service, ServiceSettings] = Field(default_factory=dict)
    """The table services that Lakewarden runs, each with its policy."""

    contact: str | None = Field(default=None, min_length=1, max_length=200)
    """The person or the team that is responsible for the table. The API shows it."""

    labels: dict[LabelName, LabelValue] = Field(default_factory=dict)
    """Words that group tables, such as `domain: sales`. Lists and the summary of all tables can be asked by them."""

    @field_validator("proof_without")
    @classmethod
    def _can_be_left_out(cls, value: tuple[Check, ...] | None) -> tuple[Check, ...] | None:
        for check in value or ():
            if check not in CAN_BE_LEFT_OUT:
                raise ValueError(f"{check} cannot be left out: only {', '.join(sorted(CAN_BE_LEFT_OUT))} can")
        return value

    @field_validator("services", mode="before")
    @classmethod
    def _all_defaults(cls, value: Any) -> Any:
        """Read `compaction:` without a value as a policy of defaults."""
        if isinstance(value, dict):
            policies = {service: {} if policy is None else policy for service, policy in value.items()}
            return {
                service: policy for service, policy in policies.items() if isinstance(policy, dict) or policy not in OFF
            }
        return value


class Defaults(CareSettings):
    """The settings of every table. Policies, patterns and the entries of tables say more, and count more."""

    mode: Mode = Mode.OBSERVE
    """`observe` only observes, `plan` also says what it would run, `act` runs it."""

    act_when: ActWhen = ActWhen.AT_ONCE
    """When the mode `act` is in force: `at_once`, or while the table is `proved`."""

    proof_without: tuple[Check, ...] = ()
    """The checks that the proof does without."""

    poll: Annotated[Duration, Within("100ms", "1d")] = Field(default="10s", validate_default=True)
    """How often a table is polled, plus or minus a tenth. Hooks make it sooner."""

    poll_with_hooks: Annotated[Duration, Within("1s", "1d")] = Field(default="60s", validate_default=True)
    """How often a remote table is polled while hooks announce each of its commits, if that is longer."""

    spark: SparkSetting = SparkRoutes()
    """The `spark` profile with the workers that serve the table, or routes to several of them."""

    budget: BudgetSettings = BudgetSettings()
    """The most that one run may delete without an approval."""


class TableSettings(CareSettings):
    """One table (`path`), or all tables that a pattern means (`match`).

    A table takes its settings from `defaults`, from its policy, from the first pattern that means it, and from its own
    entry. The later ones count more.
    """

    id: str | None = Field(default=None, pattern=TABLE_ID, examples=["lake.trips"])
    """The name of the table in the API, in metrics and in logs. The default is its path with dots: `lake.sales.orders`
    for `s3://lake/sales/orders`, and for `catalog://lake/sales.orders`.
    """

    format: str | None = None
    """The format of the table: `hudi` or `iceberg`. The default is what its files tell, or the format of its catalog. A
    pattern of paths without it means the tables of the only format that is found by its paths.
    """

    policy: PolicyName | None = None
    """A name of `policies`. The policy of a table counts in place of the policy of its pattern."""

    @field_validator("id")
    @classmethod
    def _no_sum_of_tables(cls, value: str) -> str:
        if value == OTHER_TABLES:
            raise ValueError(f"{OTHER_TABLES} is the name of the sum of tables in metrics: give the table another id")
        return value

    path: str | None = None
    """The location of the table: an absolute path or an address with a scheme. For formats with catalogs it may be
    `catalog://<name>/<namespace>.<table>`, with a name of `catalogs`.
    """

    match: str | None = None
    """A pattern of tables: of paths (`s3://lake/*/`), or of the names in a catalog (`catalog://lake/sales.*`). The
    tables need not be listed. If several patterns mean a table, the first one counts.
    """

    exclude: tuple[str, ...] = ()
    """Patterns of tables that `match` leaves out: of paths, or of `<namespace>.<table>`."""

    share: Annotated[float, Within(0, 100)] = 100
    """The pattern means only this percentage of its tables. The id of a table decides. With a higher percentage, tables
    are only added.
    """

    every: Annotated[Duration, Within("1s", "1d")] = Field(default="10m", validate_default=True)
    """How often the tables of a pattern are listed. New tables are served from then on, and dropped ones no longer. If
    several patterns need the same listing, the shortest interval counts.
    """


class Configuration(Settings):
    """The whole file."""

    daemon: DaemonSettings = DaemonSettings()
    """The control plane."""

    log: LogSettings = LogSettings()
    """The log of the daemon."""

    api: ApiSettings = ApiSettings()
    """The REST API and the commit hooks."""

    management: ManagementSettings = ManagementSettings()
    """Probes and metrics."""

    traces: TraceSettings = TraceSettings()
    """Traces of the runs, for an OpenTelemetry collector."""

    access: AccessSettings = AccessSettings()
    """The callers of the API and the hooks, and their roles."""

    database: DatabaseSettings = DatabaseSettings()
    """The database of runs, leases and decisions."""

    history: HistorySettings = HistorySettings()
    """What was decided, what had piled up, and the logs of runs."""

    permits: PermitSettings = PermitSettings()
    """How long runs wait for the permit to change a table."""

    reading: ReadingSettings = ReadingSettings()
    """The processes that read tables."""

    roots: tuple[str, ...] = ()
    """The places below which tables and their files may lie, such as `/lake` or `s3://bucket/lake`. `/lake2` is not
    below `/lake`. A table elsewhere is refused, and a file elsewhere is not read: also if a catalog or the metadata of
    a table names it. The default allows every place.
    """

    storage: tuple[StoreSetting, ...] = ()
    """How stores are reached, each by its prefix. A store without an entry is reached as the environment says."""

    spark: dict[ProfileName, SparkProfile] = Field(default_factory=lambda: {"default": SparkProfile()})
    """Pools of session workers, by name."""

    defaults: Defaults = Defaults()
    """The settings of every table that has no others."""

    catalogs: dict[CatalogName, CatalogEntry] = Field(default_factory=dict)
    """The catalogs of tables, by name."""

    policies: dict[PolicyName, CareSettings] = Field(default_factory=dict)
    """Settings for many tables, by name. A table or a pattern names one with `policy`."""

    tables: tuple[TableSettings, ...] = ()
    """The tables, and the patterns of tables."""

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
            raise ValueError(f"the prefix {twice} appears more than once")
        return value
