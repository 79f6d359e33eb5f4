"""What the PostgreSQL store promises beyond the contract: no call waits for ever, and the store recovers by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import from_now
from lakewarden.service.store.sql.errors import translated
from lakewarden.service.store.sql.postgres import Timeouts, open_postgres
from lakewarden.service.store.sql.replicas import check_owns
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import PostgresServer
from tests.support.store.replicas import LEASE, ME, a_replica, take_ownership
from tests.support.values import NOW, a_run

HASTY = Timeouts(
    connect=timedelta(seconds=10),
    lock=timedelta(seconds=1),
    statement=timedelta(seconds=5),
    answer=timedelta(seconds=10),
    idle=timedelta(seconds=30),  # between two statements on a busy machine
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return a database of its own."""
    return postgres.make_database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open a store with short time-outs."""
    opened = open_postgres(DatabaseSettings(url=url), timeouts=HASTY)
    yield opened
    opened.close()


def cut_off(postgres: PostgresServer, url: str) -> None:
    """End every connection to a database."""
    name = sa.make_url(url).database
    postgres.execute(
        "postgres", f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
    )


@contextmanager
def frozen(postgres: PostgresServer) -> Iterator[None]:
    """Freeze the whole server. Its machine answers, but the server does not."""
    first = psutil.Process(postgres.pid)
    processes = [first, *first.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


# -- the server is away, and comes back


def test_connections_that_were_cut_are_made_anew(postgres: PostgresServer, store: Store, url: str) -> None:
    """Neither the control thread nor the lease notices it."""
    take_ownership(store, "/lake/trips")
    cut_off(postgres, url)

    assert store.request(a_run()).id == "r1"
    assert store.renew(ME, lease=LEASE)


def test_a_server_that_was_stopped_is_temporary_trouble_until_it_is_back(
    postgres: PostgresServer, store: Store
) -> None:
    """What was acknowledged is there afterwards, and the store needs no restart."""
    take_ownership(store, "/lake/trips")
    run = store.take_lease(store.request(a_run()).id, owner=ME, at=NOW)

    postgres.stop()
    try:
        for act in (store.active, lambda: store.request(a_run("r2")), lambda: store.renew(ME, lease=LEASE)):
            with pytest.raises(TemporaryError, match="it cannot be reached") as refused:
                act()
            assert refused.value.delay > timedelta()
    finally:
        postgres.start()

    assert store.active() == [run]
    assert store.renew(ME, lease=LEASE)
    assert store.epoch(identity=run.identity, service=run.service) == 1


@pytest.mark.long
def test_a_frozen_server_is_not_waited_for(postgres: PostgresServer, store: Store) -> None:
    """Its own time-outs stand still with it. The client's do not, and the connections are not used again."""
    take_ownership(store, "/lake/trips")
    with frozen(postgres):
        with pytest.raises(TemporaryError):
            store.active()
        with pytest.raises(TemporaryError):
            store.renew(ME, lease=LEASE)

    assert store.active() == []
    assert store.renew(ME, lease=LEASE)


def test_a_statement_that_takes_too_long_is_ended(store: Store) -> None:
    """The server ends it, and is free for the next one."""
    with pytest.raises(TemporaryError, match="it was stopped, or took too long"), store._read() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(30)")

    assert store.active() == []


def test_a_transaction_that_stands_still_lets_go_of_its_locks(url: str) -> None:
    """Its process may be frozen for hours, and other processes need the rows."""
    timeouts = replace(HASTY, idle=timedelta(seconds=1))
    with closing(open_postgres(DatabaseSettings(url=url), timeouts=timeouts)) as store, pytest.raises(TemporaryError):
        _stand_still_until_others_can_share(store)


def _stand_still_until_others_can_share(store: Store) -> None:
    with store._write() as connection:
        connection.execute(sa.select(schema.store).with_for_update())
        for _ in range(60):
            try:
                store.share(ME, locations=[], busy=())
            except TemporaryError:
                continue
            break
        else:
            pytest.fail("a transaction that stands still keeps its locks")
        connection.execute(sa.select(schema.store))


# -- other clients of the same database


def test_a_row_that_another_client_holds_is_temporary_trouble(store: Store) -> None:
    """Nothing of the failed call is stored, and the next call succeeds."""
    take_ownership(store, "/lake/trips")
    run = store.request(a_run())
    with store._write() as connection:
        connection.execute(sa.select(schema.runs).with_for_update())
        with pytest.raises(TemporaryError, match="another transaction holds the lock"):
            store.take_lease(run.id, owner=ME, at=NOW)

    assert store.run(run.id) == run
    assert store.take_lease(run.id, owner=ME, at=NOW).epoch == 1


def test_a_lease_is_renewed_whatever_the_others_wait_for(url: str) -> None:
    """Every connection is in use, and every other row is locked. Renewals have a connection of their own."""
    store = open_postgres(DatabaseSettings(url=url), timeouts=replace(HASTY, idle=timedelta(minutes=1)))
    take_ownership(store, "/lake/trips")
    store.request(a_run())
    begun, over = threading.Barrier(11), threading.Event()

    def hold(number: int) -> None:
        with store._engine.begin() as connection:
            if number == 0:
                for held in (schema.store, schema.shares, schema.runs):
                    connection.execute(sa.select(held).with_for_update())
            begun.wait()
            over.wait()

    holders = [threading.Thread(target=hold, args=(number,)) for number in range(10)]
    for holder in holders:
        holder.start()
    try:
        begun.wait()
        assert store.renew(ME, lease=LEASE)
        with pytest.raises(TemporaryError, match="every connection is in use"):
            store.active()
    finally:
        over.set()
        for holder in holders:
            holder.join()
        store.close()


def test_of_two_that_wait_for_each_other_one_gives_way(postgres: PostgresServer, url: str) -> None:
    """The server finds it. One of the two must try again, and the other one continues."""
    store = open_postgres(DatabaseSettings(url=url))
    store.pause(None, reason="", at=NOW)
    store.mark_dirty(["/lake/trips"])
    both = threading.Barrier(2)
    errors = list[LakewardenError]()

    def lock(first: sa.Table, second: sa.Table) -> None:
        try:
            with store._write() as connection:
                connection.execute(sa.select(first).with_for_update())
                both.wait()
                connection.execute(sa.select(second).with_for_update())
        except TemporaryError as error:
            errors.append(error)

    tables = (schema.pauses, schema.dirty)
    threads = [threading.Thread(target=lock, args=order) for order in (tables, tables[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()

    (error,) = errors
    assert "others wrote the same at the same time" in str(error)


# -- at the same moment


def test_a_share_stays_where_it_is_while_a_run_is_claimed(store: Store) -> None:
    """Otherwise its next owner would not see the run, and would begin another one beside it."""
    take_ownership(store, "/lake/trips")
    with store._write() as connection:
        check_owns(connection, ME, "/lake/trips")
        with pytest.raises(TemporaryError, match="another transaction holds"):
            store.leave(ME)

    store.leave(ME)
    assert store.shares() == {}


def test_a_renewal_on_its_way_is_waited_for_before_a_run_is_adopted(store: Store) -> None:
    """It was sent in time, and its answer will say that the lease is extended."""
    run = store.take_lease(store.request(a_run()).id, owner=take_ownership(store, "/lake/trips"), at=NOW)
    heir = ReplicaId("heir")
    store.join(a_replica(heir), lease=LEASE)
    owners_lease = sa.update(schema.replicas).where(schema.replicas.c.id == ME)
    with store._write() as connection:
        connection.execute(owners_lease.values(lease_until=from_now()))
        connection.execute(sa.update(schema.shares).values(replica=heir))

    with store._write() as connection:
        connection.execute(owners_lease.values(lease_until=from_now(LEASE)))
        with pytest.raises(TemporaryError, match="another transaction holds"):
            store.adopt(run.id, owner=heir)
    with pytest.raises(SupersededError, match="the lease of replica me still runs"):
        store.adopt(run.id, owner=heir)


def test_a_run_that_is_ended_at_the_same_moment_is_not_claimed(
    postgres: PostgresServer, store: Store, url: str
) -> None:
    """The claim waits for the ending, and sees it."""
    take_ownership(store, "/lake/trips")
    run = store.request(a_run())
    ending = sa.update(schema.runs).values(state=RunState.CANCELLED, ended_at=NOW)

    answer = _meanwhile(postgres, store, url, [ending], lambda patient: patient.take_lease(run.id, owner=ME, at=NOW))

    assert isinstance(answer, SupersededError)
    assert store.active() == []


@pytest.mark.parametrize("what", ["progress", "end"])
def test_a_result_that_comes_while_its_run_is_adopted_is_rejected(
    postgres: PostgresServer, store: Store, url: str, what: str
) -> None:
    """It waits for the adoption, and is too late."""
    run = store.take_lease(store.request(a_run()).id, owner=take_ownership(store, "/lake/trips"), at=NOW)
    adopting = [sa.update(schema.leases).values(epoch=2), sa.update(schema.runs).values(epoch=2, owner="heir")]

    def report(patient: Store) -> Run:
        if what == "progress":
            return patient.progress(run.id, epoch=1, step=Step.COMMIT)
        return patient.end(run.id, epoch=1, state=RunState.SUCCEEDED, outcome="completed", at=NOW)

    answer = _meanwhile(postgres, store, url, adopting, report)

    assert isinstance(answer, SupersededError)
    (adopted,) = store.active()
    assert (adopted.epoch, adopted.step) == (2, None)


def _meanwhile(
    postgres: PostgresServer,
    store: Store,
    url: str,
    changes: Sequence[sa.Update],
    act: Callable[[Store], Run],
) -> Run | SupersededError:
    """Return the result of a call that meets `changes` before they are committed, and waits for them."""
    patient = open_postgres(DatabaseSettings(url=url))
    answers = list[Run | SupersededError]()

    def ask() -> None:
        try:
            answers.append(act(patient))
        except SupersededError as too_late:
            answers.append(too_late)

    asking = threading.Thread(target=ask)
    waiting = (
        f"SELECT 1 FROM pg_stat_activity WHERE datname = '{sa.make_url(url).database}' AND wait_event_type = 'Lock'"
    )
    with store._write() as connection:
        for change in changes:
            connection.execute(change)
        asking.start()
        while asking.is_alive() and not postgres.execute("postgres", waiting):
            connection.execute(sa.select(1))  # not idle
    asking.join()
    patient.close()
    (answer,) = answers
    return answer


# -- errors


def test_a_database_that_is_read_only_is_temporary_trouble(postgres: PostgresServer, store: Store, url: str) -> None:
    """When the standby becomes the primary, or an operator ends the maintenance, the store continues."""
    name = sa.make_url(url).database
    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    cut_off(postgres, url)
    with pytest.raises(TemporaryError, match="it cannot be written now"):
        store.request(a_run())

    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = off")
    cut_off(postgres, url)
    assert store.request(a_run()).id == "r1"


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.replicas(),
        lambda store: store.shares(),
        lambda store: store.runs(),
        lambda store: store.take_dirty(ME),
        lambda store: store.renew(ME, lease=LEASE),
        lambda store: store.check_writable(),
    ],
)
def test_what_an_idle_fleet_asks_again_and_again_is_one_statement(
    postgres: PostgresServer, store: Store, ask: Callable[[Store], object]
) -> None:
    """No transaction is begun and ended for it, and a connection that was just used is not asked whether it lives."""
    ask(store)
    with logged_statements(postgres) as statements:
        ask(store)

    assert len(statements) == 1, statements


@contextmanager
def logged_statements(postgres: PostgresServer) -> Iterator[list[bytes]]:
    """Yield a list that holds, after the block, every statement that reached the server inside of it."""
    found: list[bytes] = []
    postgres.log_statements()
    before = postgres.log.stat().st_size
    yield found
    found += PostgresServer.statements_in(postgres.log.read_bytes()[before:])


def test_a_server_that_does_not_let_us_in_is_named_with_the_remedy(postgres: PostgresServer) -> None:
    """A repeated attempt changes nothing: the database or the user does not exist."""
    for url in (postgres.url("nowhere"), postgres.url("postgres", user="nobody")):
        with pytest.raises(PermanentError, match="refuses the connection: correct the database's url") as refused:
            open_postgres(DatabaseSettings(url=url))
        assert str(refused.value).startswith(f"the store {url}")


def test_a_user_without_rights_is_refused(postgres: PostgresServer, url: str) -> None:
    """It may connect, and may not create the schema."""
    postgres.execute("postgres", "DROP ROLE IF EXISTS guest")
    postgres.execute("postgres", "CREATE ROLE guest LOGIN")

    with pytest.raises(PermanentError, match="permission denied"):
        open_postgres(DatabaseSettings(url=url.replace("postgres@", "guest@")))

    postgres.execute("postgres", "DROP ROLE guest")


def test_a_server_that_is_not_there_may_come_yet(tmp_path: Path) -> None:
    """As far as the client can tell, it is not a mistake of the configuration."""
    with pytest.raises(TemporaryError, match="it cannot be reached"):
        open_postgres(DatabaseSettings(url=f"postgresql://me@/x?host={tmp_path}"))


def test_the_password_is_read_anew_with_every_connection(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """It may be changed in its place while the daemon runs. No message contains it."""
    file = tmp_path / "password"
    file.write_text("first one\n")
    with postgres.guarded_user("keeper", password="first one") as set_password:
        settings = DatabaseSettings(url=url.replace("postgres@", "keeper@"), password=Secret(file=file))
        postgres.execute(url, "GRANT ALL ON SCHEMA public TO keeper")
        store = open_postgres(settings)

        set_password("second one")
        cut_off(postgres, url)
        with pytest.raises(PermanentError, match="refuses the connection") as refused:
            store.active()
        assert "first one" not in str(refused.value)

        file.write_text("second one\n")
        assert store.active() == []
        store.close()
        postgres.execute(url, "DROP OWNED BY keeper")


# -- errors that a test cannot provoke


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (psycopg.errors.DiskFull("no space left"), TemporaryError, "it has run out of space"),
        (psycopg.errors.TooManyConnections("too many"), TemporaryError, "it has run out of space, memory or connec"),
        (psycopg.errors.SerializationFailure("again"), TemporaryError, "others wrote the same"),
        (psycopg.errors.DataCorrupted("invalid page"), PermanentError, "is damaged: stop the daemon and replace it"),
        (psycopg.errors.UniqueViolation("twice"), sa.exc.DBAPIError, "twice"),
    ],
)
def test_an_error_says_what_is_done_next(theirs: psycopg.Error, ours: type[Exception], said: str) -> None:
    """A mistake of this code is not reported as the database's."""
    with pytest.raises(ours, match=said), translated("postgresql://db/lakewarden"):
        raise sa.exc.DBAPIError("SELECT", {}, theirs)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused_with_the_remedy(postgres: PostgresServer, encoding: str) -> None:
    """SQL_ASCII returns bytes, and LATIN1 cannot keep the names of all tables."""
    name = f"lakewarden_{encoding.lower()}"
    postgres.execute("postgres", f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")

    with pytest.raises(PermanentError, match=rf"has the encoding {encoding}.*ENCODING 'UTF8' TEMPLATE template0"):
        open_postgres(DatabaseSettings(url=postgres.url(name)), timeouts=HASTY)
