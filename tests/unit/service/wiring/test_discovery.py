"""Tables that are found in a catalog are served like those that are listed, for as long as they are there."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.hooks import At
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.model.table_sources import FoundTables
from tests.support.daemon.daemon_harness import COMPACT, DaemonHarness
from tests.support.doubles.fake import FakeTable

EVERY = timedelta(minutes=2)
ORDERS = TableId("lake.orders")


class Folder:
    """A source: the tables in a folder, but for those that are `dropped`. While it is `away` it cannot tell, and of
    those that are `hidden` it cannot tell either.
    """

    every = EVERY

    def __init__(self, folder: Path, name: str = "lake", *, ids: str | None = None) -> None:
        self.name = name
        self.ids = ids or name
        self.folder = folder
        self.away = False
        self.dropped: set[str] = set()
        self.hidden: set[str] = set()
        self.moved: dict[str, Path | str] = {}
        self.is_cut_short = False
        self.asked = 0

    def find(self) -> FoundTables:
        self.asked += 1
        if self.away:
            raise TemporaryError("the catalog lake does not answer")
        tables = [
            Table(
                id=TableId(f"{self.ids}.{folder.name}"),
                format="fake",
                location=str(self.moved.get(folder.name, folder)),
                mode=Mode.ACT,
                policies=COMPACT,
            )
            for folder in sorted(self.folder.iterdir())
            if folder.name not in self.dropped | self.hidden
        ]
        cut = {"lake": "more than may be looked at"} if self.is_cut_short else {}
        return FoundTables(tables=tables, unlisted={f"lake.{name}": "forbidden" for name in self.hidden} | cut)


class Lake:
    """A daemon with one table that is listed by hand, and a folder in which others come and go."""

    def __init__(self, folder: Path) -> None:
        (folder / "lake").mkdir()
        self.source = Folder(folder / "lake")
        self.harness = DaemonHarness(folder, sources=[self.source])

    def create(self, name: str) -> FakeTable:
        """Make a table in the folder."""
        lake = FakeTable.create(self.source.folder / name, clock=self.harness.clock)
        self.harness.lakes[TableId(f"lake.{name}")] = lake
        return lake

    def drop(self, name: str) -> None:
        """Drop it, files and all."""
        shutil.rmtree(self.source.folder / name)
        del self.harness.lakes[TableId(f"lake.{name}")]

    @property
    def registered(self) -> list[str]:
        """The tables that the API shows."""
        return [status.table.id for status in self.harness.status.tables()]

    def until_asked(self) -> None:
        """Turn until the source has been asked once more, and what it told was heard."""
        before = self.source.asked
        self.harness.until(lambda: self.source.asked > before, within=EVERY * 2)
        self.harness.turn()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_what_a_source_cannot_tell_of_this_time_stays_and_the_rest_is_discovered(lake: Lake) -> None:
    """As of a namespace that is forbidden, or fails: its tables are served as before until it can be listed again."""
    lake.create("orders")
    lake.create("returns")
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders", "lake.returns"]

    lake.source.hidden = {"orders"}
    lake.source.dropped = {"returns"}
    lake.create("new")
    lake.until_asked()
    lake.until_asked()
    assert sorted(lake.registered) == ["lake.new", "lake.orders", "trips"]
    assert lake.harness.recorded.unlisted == {"lake": {"lake.orders": "forbidden"}}

    lake.source.hidden = set()
    lake.source.dropped = {"orders"}
    lake.until_asked()
    assert sorted(lake.registered) == ["lake.new", "lake.returns", "trips"] or "lake.orders" not in lake.registered
    assert lake.harness.recorded.unlisted == {"lake": {}}


def test_a_new_table_is_served_without_a_restart(lake: Lake) -> None:
    """It is found at the next listing, and goes from a commit to a settled run."""
    lake.until_asked()
    orders = lake.create("orders")
    lake.until_asked()
    for _ in range(3):
        orders.write()

    lake.harness.until(lambda: lake.harness.completed(Service.COMPACTION, ORDERS) != [])

    assert lake.registered == ["trips", "lake.orders"]


def test_a_catalog_is_asked_once_in_its_interval(lake: Lake) -> None:
    """A listing may be long: it is not made with every turn."""
    lake.harness.for_a_while(EVERY * 3 + timedelta(minutes=1))

    assert lake.source.asked == 4


def test_a_hook_finds_a_table_that_was_found(lake: Lake) -> None:
    """Writers announce their commits by the table's address, whoever registered it."""
    orders = lake.create("orders")
    lake.until_asked()

    assert lake.harness.status.mark_dirty(At(location=str(orders.folder))) == (ORDERS,)


def test_a_dropped_table_is_owned_no_longer(lake: Lake) -> None:
    """Nobody is alarmed over a table that is meant to be gone, and it is shown to nobody."""
    lake.create("orders")
    lake.until_asked()
    lake.harness.until(lambda: lake.harness.status.table(ORDERS) is not None)
    lake.drop("orders")
    lake.until_asked()
    errors = len(lake.harness.recorded.errors)
    lake.harness.for_a_while()

    assert lake.registered == ["trips"]
    assert len(lake.harness.recorded.errors) == errors
    assert lake.harness.status.table(ORDERS) is None


def test_a_run_on_a_dropped_table_is_settled_first(lake: Lake) -> None:
    """It is not forgotten with the table: what its worker tells of it still has a place."""
    orders = lake.create("orders")
    lake.until_asked()
    for _ in range(3):
        orders.write()
    run = lake.harness.until_executing(Step.EXECUTE)
    assert run.table == ORDERS
    lake.source.dropped = {"orders"}
    lake.until_asked()

    assert lake.registered == ["trips", "lake.orders"]

    lake.harness.held_pool.release()
    lake.harness.until(lambda: lake.harness.states(table=ORDERS) == [RunState.SUCCEEDED])
    lake.until_asked()
    assert lake.registered == ["trips"]


def test_a_catalog_that_does_not_answer_takes_no_table_away(lake: Lake) -> None:
    """What it told before stays; it is asked again sooner than usual, and its trouble is nobody else's."""
    orders = lake.create("orders")
    lake.until_asked()
    lake.source.away = True
    lake.until_asked()
    asked = lake.source.asked
    lake.harness.for_a_while(timedelta(minutes=2))

    assert lake.registered == ["trips", "lake.orders"]
    assert 3 <= lake.source.asked - asked <= 5
    for _ in range(3):
        orders.write()
    lake.harness.until(lambda: lake.harness.completed(Service.COMPACTION, ORDERS) != [])


def test_a_table_that_is_listed_by_hand_is_what_it_is_there(tmp_path: Path) -> None:
    """The same address has one id, one policy and one owner."""
    harness = DaemonHarness(tmp_path, names=["trips"])
    source = Folder(tmp_path)
    source.folder = harness.lakes[TableId("trips")].folder.parent
    harness.sources = [source]
    harness.compose()
    harness.until(lambda: source.asked > 0)
    harness.turn()

    assert "lake.trips" not in {status.table.id for status in harness.status.tables()}


def test_a_run_of_a_found_table_outlives_its_daemon(lake: Lake) -> None:
    """After a restart the table is not there until it is found; then its run is taken up where it was."""
    orders = lake.create("orders")
    lake.until_asked()
    for _ in range(3):
        orders.write()
    run = lake.harness.until_executing(Step.COMMIT)
    del lake.harness.lakes[ORDERS]

    lake.harness.compose()
    lake.harness.lakes[ORDERS] = orders
    lake.harness.until(lambda: all(state is not RunState.UNKNOWN for state in lake.harness.states(table=ORDERS)))

    lake.harness.until(lambda: RunState.SUCCEEDED in lake.harness.states(table=ORDERS), within=timedelta(minutes=10))
    assert run.table == ORDERS
    assert len(lake.harness.completed(Service.COMPACTION, ORDERS)) == 1


def test_a_table_that_has_moved_is_another_one(lake: Lake) -> None:
    """What is known of the first is not true of the second, which has its name: the first goes before it comes."""
    orders = lake.create("orders")
    lake.until_asked()
    elsewhere = FakeTable.create(lake.source.folder.parent / "elsewhere", clock=lake.harness.clock)
    lake.source.moved["orders"] = elsewhere.folder
    lake.until_asked()
    assert lake.registered == ["trips"]
    lake.until_asked()
    lake.harness.lakes[ORDERS] = elsewhere
    for _ in range(3):
        elsewhere.write()

    lake.harness.until(lambda: lake.harness.completed(Service.COMPACTION, ORDERS) != [])

    assert [status.table.location for status in lake.harness.status.tables()][1:] == [str(elsewhere.folder)]
    assert orders.folder != elsewhere.folder


def test_a_table_in_the_folder_of_another_is_not_registered(lake: Lake) -> None:
    """What is cleaned up in the outer one could be taken from the inner one; the first to come stays."""
    lake.create("orders")
    lake.create("returns")
    lake.source.moved["returns"] = lake.source.folder / "orders" / "day" / "returns"
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]

    lake.source.moved["returns"] = lake.source.folder.parent / "lake"
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]


def test_another_name_for_a_place_takes_no_table_over(lake: Lake) -> None:
    """Who may write into a catalog does not decide by that what happens to a table that is there already."""
    lake.create("orders")
    lake.until_asked()
    lake.create("a_table")
    lake.source.moved["a_table"] = lake.source.folder / "orders"
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]

    lake.source.moved["a_table"] = lake.source.folder.parent / "lake"
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]


def test_two_places_with_one_id_are_said(lake: Lake) -> None:
    """A dot in the name of a folder can do that. The first table is served on, and the second one has a remedy."""
    lake.create("orders")
    lake.until_asked()
    second = Folder(lake.source.folder.parent / "second", "second", ids="lake")
    (second.folder / "orders").mkdir(parents=True)
    lake.harness.sources = [lake.source, second]
    lake.harness.compose()
    lake.until_asked()
    lake.until_asked()

    assert lake.registered == ["trips", "lake.orders"]
    refused = lake.harness.recorded.refused
    (why,) = refused["second"].values()
    assert list(refused["second"]) == [f"lake.orders at {second.folder / 'orders'}"]
    assert (
        why == f"the table at {lake.source.folder / 'orders'} has its id: list it under tables, with an id of its own"
    )
    assert refused["lake"] == {}

    second.dropped = {"orders"}
    lake.until_asked()
    lake.until_asked()
    assert refused["second"] == {}


def test_another_spelling_of_a_place_takes_no_table_over(lake: Lake) -> None:
    """A host has no case, and 8020 is the port of HDFS. Two tables there would have two leases, and two owners."""
    for name, place in {"a": "hdfs://nn/t", "b": "hdfs://NN:8020/t", "c": "hdfs://NN/t/in", "d": "hdfs://nn/T"}.items():
        lake.create(name)
        lake.source.moved[name] = place
    lake.until_asked()
    assert lake.registered == ["trips", "lake.a", "lake.d"]


def test_a_look_that_ended_early_forgets_nothing_and_keeps_each_table_once(lake: Lake) -> None:
    """However often that happens: what is told again and again is not remembered again and again."""
    lake.create("orders")
    lake.create("returns")
    lake.until_asked()
    lake.source.is_cut_short = True
    lake.source.dropped = {"returns"}
    for _ in range(5):
        lake.until_asked()

    assert lake.registered == ["trips", "lake.orders", "lake.returns"]
    assert lake.harness.recorded.found == {"lake": ["lake.orders", "lake.returns"]}


def test_of_two_catalogs_that_know_a_table_the_first_has_it_whichever_answers_first(lake: Lake) -> None:
    """What a table's policies are is said by the configuration, and not by a race at the start."""
    second = Folder(lake.source.folder, "other")
    lake.create("orders")
    del lake.harness.lakes[ORDERS]
    lake.harness.sources = [lake.source, second]
    lake.source.away = True
    lake.harness.compose()
    lake.until_asked()
    assert lake.registered == ["trips", "other.orders"]

    lake.source.away = False
    lake.until_asked()
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]


def test_a_place_with_a_run_has_no_second_owner(lake: Lake) -> None:
    """A table that is known by another name now waits until the run under the first one is settled."""
    orders = lake.create("orders")
    lake.until_asked()
    for _ in range(3):
        orders.write()
    lake.harness.until_executing(Step.EXECUTE)
    lake.create("renamed")
    lake.source.dropped = {"orders"}
    lake.source.moved["renamed"] = orders.folder
    lake.until_asked()
    assert lake.registered == ["trips", "lake.orders"]

    lake.harness.held_pool.release()
    lake.harness.until(lambda: lake.harness.states(table=ORDERS) == [RunState.SUCCEEDED])
    lake.until_asked()
    lake.until_asked()
    assert lake.registered == ["trips", "lake.renamed"]


def test_what_a_source_found_is_shown_with_what_it_refused_and_when(lake: Lake) -> None:
    """Also that it does not answer now, which takes no table away."""
    lake.create("orders")
    lake.source.moved["orders"] = lake.harness.lakes[TableId("trips")].folder / "below"
    lake.source.hidden = {"secret"}
    lake.until_asked()
    (source,) = lake.harness.status.discovery.sources()
    assert (source.name, source.failure, list(source.tables)) == ("lake", None, ["lake.orders"])
    assert source.refused == {"lake.orders": "inside of trips"}
    assert source.unlisted == {"lake.secret": "forbidden"}
    answered = source.answered_at

    lake.source.away = True
    lake.until_asked()
    (source,) = lake.harness.status.discovery.sources()
    assert (source.answered_at, source.failure) == (answered, "the catalog lake does not answer")
    assert list(source.tables) == ["lake.orders"]


def test_an_operator_has_the_sources_listed_now(lake: Lake) -> None:
    """A new table is served without the wait for the next interval."""
    lake.until_asked()
    lake.create("orders")
    lake.harness.status.discovery.list_again()
    lake.harness.turn()
    lake.harness.turn()
    assert "lake.orders" in lake.registered


def test_tables_of_the_api_leave_the_sources_alone(lake: Lake) -> None:
    """Registering a table lists no catalog anew, and takes away no table that was found."""
    lake.create("orders")
    lake.until_asked()
    before = lake.source.asked
    trips = lake.harness.status.tables()[0].table
    lake.harness.offer([trips], None, {})
    lake.harness.turn()
    assert (lake.source.asked, lake.registered) == (before, ["trips", "lake.orders"])
