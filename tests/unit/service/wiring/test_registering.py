"""Tables that are registered while the daemon runs, changed, and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Pool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import ManualClock, SystemClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.storage import Storages
from lakewarden.service.config.daemon import at_start
from lakewarden.service.config.document import read_document
from lakewarden.service.config.loading import Config, load
from lakewarden.service.config.registering import base_of
from lakewarden.service.model.access import LOCAL, ActKind
from lakewarden.service.model.registrations import (
    NotRegisteredError,
    OtherRegistrationError,
    Registration,
    RegistrationRefusedError,
    ReloadOutcome,
)
from lakewarden.service.model.table_sources import Source
from lakewarden.service.store.sql.store import Store
from lakewarden.service.wiring.in_force import Tables, TablesInForce, with_rows
from lakewarden.service.wiring.registering import Registrar, Reloader
from tests.support.daemon.daemon_harness import DaemonHarness
from tests.support.doubles.fake import FakeTable
from tests.support.doubles.formats import TEST_FORMATS
from tests.support.store.memory_store import MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)
NEW = TableId("new")


class Daemon:
    """What a daemon registers with, and what it offers to its control thread."""

    def __init__(self, folder: Path, store: Store | None = None, *lines: str) -> None:
        self.lake = folder / "lake"
        self.lake.mkdir(exist_ok=True)
        self.file = folder / "lakewarden.yaml"
        self.write(*(lines or (f"tables: [{{id: listed, path: {self.lake}/listed, format: fake}}]",)))
        self.store = store or MemoryStore()
        self.served: dict[TableId, Table] = {}
        self.offered: list[Sequence[TableId]] = []
        self.start()

    def write(self, *lines: str) -> None:
        """Write the configuration."""
        policies = "policies: {stream: {mode: plan, services: {compaction: {options: {}}}}}"
        self.file.write_text("\n".join([f"roots: [{self.lake}]", policies, *lines]))

    def start(self) -> None:
        """Start on what the store has."""
        config = load(self.file, formats=TEST_FORMATS)
        base = base_of(config, read_document(self.file).values or {}, self.file)
        rows = self.store.registrations()
        tables = with_rows(Tables(config=config, base=base), rows, formats=TEST_FORMATS)
        self.served = {table.id: table for table in tables.listed}
        self.in_force = TablesInForce(tables, storages=Storages(), served={}, pools_of=lambda *_: {}, offer=self._offer)
        self.registrar = Registrar(
            self.in_force,
            rows,
            store=self.store,
            clock=ManualClock(START),
            formats=TEST_FORMATS,
            registered=self.served,
        )
        self.reloader = Reloader(
            self.file,
            started_with=at_start(base.values),
            formats=TEST_FORMATS,
            clock=ManualClock(START),
            in_force=self.in_force,
            rows=lambda: self.registrar.rows,
            tell=lambda *_: None,
        )

    def _offer(self, tables: Sequence[Table], *_: Any) -> None:
        self.served.clear()
        self.served.update({table.id: table for table in tables})
        self.offered.append([table.id for table in tables])

    def register(self, name: str = "new", **said: Any) -> None:
        """Register a table in the lake."""
        entry = {"id": name, "path": f"{self.lake}/{name}", "format": "fake", **said}
        self.registrar.register(entry, caller=LOCAL)


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    """Return a daemon with one table in its configuration."""
    return Daemon(tmp_path)


def test_a_registered_table_is_served_also_after_a_restart(daemon: Daemon) -> None:
    """With the settings of its policy. Its own settings count more, and say where they come from."""
    daemon.register(policy="stream", labels={"domain": "sales"})
    for _ in range(2):
        table = daemon.served[NEW]
        assert (table.mode, dict(table.labels), set(table.policies)) == (
            Mode.PLAN,
            {"domain": "sales"},
            {Service.COMPACTION},
        )
        assert str(table.sources["labels.domain"].level) == "registration"
        assert table.sources["mode"].level == "policy stream"
        daemon.start()


def test_other_settings_replace_the_former_ones(daemon: Daemon) -> None:
    """As a whole. Its place and its format stay."""
    daemon.register(policy="stream", contact="ada")
    path = f"{daemon.lake}/new"
    daemon.registrar.change(NEW, {"path": path, "format": "fake", "mode": "plan"}, caller=LOCAL)
    table = daemon.served[NEW]
    assert (table.mode, table.contact, dict(table.policies)) == (Mode.PLAN, None, {})
    with pytest.raises(RegistrationRefusedError, match="its place and format stay"):
        daemon.registrar.change(NEW, {"path": f"{daemon.lake}/moved", "format": "fake"}, caller=LOCAL)


def test_a_removed_table_is_gone_and_can_be_registered_again(daemon: Daemon) -> None:
    """Also after a restart. Nobody else's table is."""
    daemon.register()
    daemon.register("other")
    daemon.registrar.remove(NEW, caller=LOCAL)
    assert list(daemon.served) == ["listed", "other"]
    daemon.start()
    assert list(daemon.served) == ["listed", "other"]
    daemon.register()
    assert [one.table for one in daemon.registrar.registrations()] == ["new", "other"]


def test_each_act_is_in_the_audit_log_with_what_it_changed(daemon: Daemon) -> None:
    """A refusal changes nothing, and is none."""
    daemon.register(contact="ada")
    with pytest.raises(RegistrationRefusedError):
        daemon.register()
    daemon.registrar.remove(NEW, caller=LOCAL)
    removed, registered = daemon.store.acts()
    assert (registered.kind, removed.kind) == (ActKind.TABLE_REGISTERED, ActKind.TABLE_REMOVED)
    assert registered.before is None
    assert registered.after == removed.before
    assert removed.after is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"id": "listed"}, "the configuration file has the table listed"),
        ({"path": "listed"}, "registered already, as listed"),
        ({"path": "listed/below"}, "inside of listed"),
        ({"path": "listed/../../outside"}, "lies outside of the roots"),
        ({"policy": "none"}, "there is no policy 'none'"),
        ({"spark": "none"}, "there is no spark profile 'none'"),
        ({"format": "none"}, "is not a format"),
        ({"mode": "delete"}, "mode: must be observe, plan or act"),
        ({"match": "/lake/*"}, "match can only be set in the configuration"),
        ({"options": {"conf": {}}}, "options can only be set in the configuration"),
        ({"services": {"clean": {"session": {"a": "b"}}}}, "services.clean.session can only be set"),
        ({"services": {"clean": {"options": {}}}}, "services.clean.options can only be set"),
        ({"services": {"clean": {"spark": "x"}}}, "services.clean.spark can only be set"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_its_reason(daemon: Daemon, entry: Any, said: str) -> None:
    """Nothing is kept, and nothing else changes."""
    path = f"{daemon.lake}/{entry.pop('path', 'new')}"
    with pytest.raises(RegistrationRefusedError, match=said):
        daemon.registrar.register({"id": "new", "format": "fake", "path": path, **entry}, caller=LOCAL)
    assert (daemon.store.registrations(), daemon.offered) == ([], [])


def test_a_link_does_not_lead_out_of_the_roots(daemon: Daemon, tmp_path: Path) -> None:
    """The place that a link leads to counts."""
    (tmp_path / "outside").mkdir()
    (daemon.lake / "new").symlink_to(tmp_path / "outside")
    with pytest.raises(RegistrationRefusedError, match="outside of the roots"):
        daemon.register()


def test_a_table_of_the_file_is_neither_changed_nor_removed(daemon: Daemon) -> None:
    """The file would bring it back. A table that nobody knows is unknown."""
    for act in (
        lambda table: daemon.registrar.change(table, {"path": "/x"}, caller=LOCAL),
        lambda table: daemon.registrar.remove(table, caller=LOCAL),
    ):
        with pytest.raises(RegistrationRefusedError, match="is in the configuration file") as refused:
            act(TableId("listed"))
        assert "reload" in str(refused.value.remedy)
        with pytest.raises(NotRegisteredError):
            act(TableId("nowhere"))


def test_replicas_hear_of_each_other(tmp_path: Path) -> None:
    """What one registers, the other serves. Two that register at the same time do not register one place twice."""
    store = MemoryStore()
    one, other = Daemon(tmp_path, store), Daemon(tmp_path, store)
    one.register()
    other.registrar.catch_up()
    assert list(other.served) == ["listed", "new"]

    one.register("second")
    with pytest.raises(RegistrationRefusedError, match="registered already, as second"):
        other.register("third", path=f"{other.lake}/second")
    other.registrar.remove(NEW, caller=LOCAL)
    one.registrar.catch_up()
    assert list(one.served) == list(other.served) == ["listed", "second"]


def test_a_reload_keeps_registered_tables_or_is_refused(daemon: Daemon) -> None:
    """A file without the policy of a registered table would take the table away without a word."""
    daemon.register(policy="stream")
    daemon.write("tables: []")
    assert daemon.reloader.reload().accepted
    assert list(daemon.served) == ["new"]

    daemon.file.write_text(f"roots: [{daemon.lake}]\ntables: []")
    refused = daemon.reloader.reload()
    assert "the registered table new could not be served: policy: there is no policy 'stream'" in refused.problems[0]
    assert list(daemon.served) == ["new"]


def test_a_reload_that_needs_a_restart_says_so_and_does_not_deny_what_the_file_has(daemon: Daemon) -> None:
    """Catalogs are read at the start. An error that the file has alone is told as it is."""
    catalog = "catalogs: {shop: {format: iceberg, type: hadoop, warehouse: /lake}}"
    daemon.write(catalog, "tables: [{match: 'catalog://shop/*', policy: gone}]")
    first, second = daemon.reloader.reload().problems
    assert "tables[0].match: needs a restart, because catalogs of the file is read only at the start" in first
    assert "Until then: there is no catalog 'shop'" in first
    assert "there is no policy 'gone'" in second


def test_a_file_that_takes_a_registered_table_over_counts_more(daemon: Daemon) -> None:
    """The registration waits, says why, and comes back when the entry is gone from the file."""
    daemon.register(contact="ada")
    daemon.write(f"tables: [{{id: new, path: {daemon.lake}/new, format: fake, contact: bob}}]")
    assert daemon.reloader.reload().accepted
    assert daemon.served[NEW].contact == "bob"
    (waiting,) = daemon.registrar.registrations()
    assert "counts more" in str(waiting.problem)

    daemon.write("tables: []")
    assert daemon.reloader.reload().accepted
    assert daemon.served[NEW].contact == "ada"


def test_a_start_leaves_out_what_it_cannot_serve_and_says_so(daemon: Daemon) -> None:
    """One registration with an error keeps no daemon from its start, and no other table from being served."""
    daemon.register(policy="stream")
    daemon.register("other")
    daemon.file.write_text(f"roots: [{daemon.lake}]\ntables: []")
    daemon.start()
    assert list(daemon.served) == ["other"]
    problems = {str(one.table): one.problem for one in daemon.registrar.registrations()}
    assert problems["other"] is None
    assert "there is no policy 'stream'" in str(problems["new"])


def test_a_removed_table_ends_its_run(tmp_path: Path) -> None:
    """No other run begins, and its files are as they were."""
    harness = DaemonHarness(tmp_path)
    trips = harness.status.tables()[0].table
    other = FakeTable.create(tmp_path / "other", clock=harness.clock)
    harness.lakes[TableId("other")] = other
    added = Table(
        id=TableId("other"), format="fake", location=str(other.folder), mode=Mode.ACT, policies=harness.policies
    )
    harness.offer([trips, added], None, {})
    for _ in range(3):
        other.write()
    harness.until(lambda: harness.completed(Service.COMPACTION, TableId("other")) != [])

    harness.offer([trips], None, {})
    harness.until(lambda: [one.table.id for one in harness.status.tables()] == ["trips"])
    before = len(harness.runs(table=TableId("other")))
    other.write()
    harness.for_a_while()
    assert len(harness.runs(table=TableId("other"))) == before


def test_a_registration_that_is_not_as_expected_stays(daemon: Daemon) -> None:
    """Neither a change nor a removal, and no act in the audit log. `expected` sees what is there at that moment."""
    daemon.register()
    entry = {"path": f"{daemon.lake}/new", "format": "fake", "mode": "act"}
    seen: list[object] = []

    def expected(found: Registration) -> bool:
        seen.append(found.entry.get("mode"))
        return False

    with pytest.raises(OtherRegistrationError, match="has changed since it was read"):
        daemon.registrar.change(NEW, entry, caller=LOCAL, expected=expected)
    with pytest.raises(OtherRegistrationError):
        daemon.registrar.remove(NEW, caller=LOCAL, expected=expected)
    assert daemon.served[NEW].mode is not Mode.ACT
    assert [act.kind for act in daemon.store.acts()] == [ActKind.TABLE_REGISTERED]

    daemon.registrar.change(NEW, entry, caller=LOCAL)
    with pytest.raises(OtherRegistrationError):
        daemon.registrar.remove(NEW, caller=LOCAL, expected=expected)
    assert seen == [None, None, "act"]


# Other settings for a daemon that runs: no run is touched, and a bad file changes nothing.

TRIPS = TableId("trips")


@pytest.fixture
def harness(tmp_path: Path) -> DaemonHarness:
    """Return a daemon with one table that is listed."""
    return DaemonHarness(tmp_path)


def registered(harness: DaemonHarness) -> Mapping[TableId, Table]:
    """Return the tables that the API shows."""
    return {status.table.id: status.table for status in harness.status.tables()}


def reason(harness: DaemonHarness) -> str:
    """Return the reason of the last decision on a compaction, if there is one."""
    status = harness.status.table(TRIPS)
    decision = None if status is None else status.decisions.get(Service.COMPACTION)
    return "" if decision is None else decision.reason


def test_new_settings_wait_for_the_end_of_a_run(harness: DaemonHarness) -> None:
    """The run ends as it began, no other one begins meanwhile, and then the new settings are in force."""
    for _ in range(3):
        harness.lake.write()
    harness.until_executing(Step.EXECUTE)
    before = registered(harness)[TRIPS]
    harness.offer([replace(before, mode=Mode.OBSERVE, contact="sales")], [], {})
    harness.for_a_while()
    assert registered(harness)[TRIPS] == before

    for _ in range(3):
        harness.lake.write()
    harness.held_pool.release()
    harness.until(lambda: registered(harness)[TRIPS].mode is Mode.OBSERVE)

    assert len(harness.completed(Service.COMPACTION)) == 1
    assert registered(harness)[TRIPS].contact == "sales"
    harness.for_a_while()
    assert "only observed" in reason(harness)


def test_new_settings_of_an_idle_table_are_in_force_at_once(harness: DaemonHarness) -> None:
    """The table is read anew, and goes on with them."""
    table = registered(harness)[TRIPS]
    harness.for_a_while()
    harness.offer([replace(table, mode=Mode.PLAN)], [], {})
    harness.turn()
    for _ in range(3):
        harness.lake.write()

    harness.until(lambda: Service.COMPACTION in harness.status.tables()[0].would_run)
    harness.offer([table], [], {})
    harness.until(lambda: harness.completed(Service.COMPACTION) != [])


class Reloaded:
    """A file, what reads it again, and what it hands over."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lakewarden.yaml"
        self.write("api: {port: 9000}", "tables: [{path: /x, format: fake}]")
        self.offered: list[Sequence[TableId]] = []
        self.pools: list[Sequence[TableId]] = []
        self.told: list[bool] = []
        values = read_document(self.file).values or {}
        config = load(self.file, formats=TEST_FORMATS)
        self.reloader = Reloader(
            self.file,
            started_with=at_start(values),
            formats=TEST_FORMATS,
            clock=SystemClock(),
            in_force=TablesInForce(
                Tables(config=config, base=base_of(config, values, self.file)),
                storages=Storages(),
                served={},
                pools_of=self._pools_of,
                offer=self._offer,
            ),
            tell=self._tell,
        )

    def write(self, *lines: str) -> None:
        """Write the file."""
        self.file.write_text("\n".join(lines))

    def _pools_of(self, tables: Sequence[Table], _spark: Mapping[str, SparkProfile]) -> dict[str, Pool]:
        self.pools.append([table.id for table in tables])
        return {}

    def _offer(self, tables: Sequence[Table], _sources: Sequence[Source] | None, _pools: Mapping[str, Pool]) -> None:
        self.offered.append([table.id for table in tables])

    def _tell(self, outcome: ReloadOutcome, config: Config | None) -> None:
        assert outcome.accepted == (config is not None)
        self.told.append(outcome.accepted)


def test_a_bad_file_keeps_the_last_good_one(tmp_path: Path) -> None:
    """It is said with its lines, for as long as the file is bad."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("tables:", "- {path: /x, format: fake, pol: 1s}")
    refused = reloaded.reloader.reload()

    assert (refused.accepted, reloaded.offered) == (False, [])
    assert refused.problems[0].startswith(f"{reloaded.file}:2: tables[0].pol: unknown key")
    assert reloaded.reloader.refusal()[1] == refused.problems[0]

    reloaded.write("tables: [{path: /x, format: fake}, {path: /y, format: fake}]")
    assert reloaded.reloader.reload().accepted
    assert reloaded.offered == [["x", "y"]]
    assert not reloaded.reloader.refusal()
    assert reloaded.told == [False, True]


def test_a_file_that_is_half_written_lets_no_table_go(tmp_path: Path) -> None:
    """An empty file is refused. What a good file no longer lists is named."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("tables: [{path: /x, format: fake}, {path: /y, format: fake}]")
    assert reloaded.reloader.reload().gone == ()
    reloaded.write("")
    refused = reloaded.reloader.reload()
    assert (refused.accepted, refused.gone, reloaded.offered) == (False, (), [["x", "y"]])
    assert "is empty" in refused.problems[0]

    reloaded.write("tables: [{path: /y, format: fake}]")
    assert reloaded.reloader.reload().gone == ("x",)


def test_what_is_read_at_the_start_only_is_said_by_name(tmp_path: Path) -> None:
    """The tables are in force, and the new port is not."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("api: {port: 9001}", "log: {level: debug}", "tables: [{path: /y, format: fake}]")
    outcome = reloaded.reloader.reload()

    assert outcome.needs_restart == ("api.port", "log")
    assert reloaded.offered == [["y"]]


def test_a_table_cannot_have_what_was_not_there_at_the_start(tmp_path: Path) -> None:
    """A new profile of workers is read at the start, so a table that names it is refused."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("spark: {default: {}, big: {memory: 4g}}", "tables: [{path: /y, format: fake, spark: big}]")
    outcome = reloaded.reloader.reload()

    assert not outcome.accepted
    assert "there is no spark profile 'big'; there is default" in outcome.problems[0]
    assert outcome.needs_restart == ("spark",) or "api" in outcome.needs_restart


def test_the_first_table_in_act_gets_its_workers(tmp_path: Path) -> None:
    """A rollout goes from observe to act without a restart."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("api: {port: 9000}", "tables: [{path: /y, format: hudi, mode: act, services: {clean: }}]")

    assert reloaded.reloader.reload().accepted
    assert reloaded.pools == [["y"]]
