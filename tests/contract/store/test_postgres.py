"""What the PostgreSQL store promises beyond the contract: it waits for nothing for ever, and comes back by itself."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.port import SupersededError
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.dialects import from_now
from lakewarden.service.store.sql.postgres import Patience, open_postgres
from lakewarden.service.store.sql.replicas import check_attends
from lakewarden.service.store.sql.store import SqlStore
from lakewarden.service.store.sql.trouble import translated
from tests.support.postgres import PostgresServer
from tests.support.replicas import LEASE, ME, a_replica, attend
from tests.support.values import NOW, a_run

HASTY = Patience(
    connect=timedelta(seconds=2),
    lock=timedelta(milliseconds=300),
    statement=timedelta(seconds=1),
    answer=timedelta(seconds=2),
    idle=timedelta(seconds=1),
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return a database of its own."""
    return postgres.make_database()


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """Open a store that soon loses its patience."""
    opened = open_postgres(DatabaseSettings(url=url), patience=HASTY)
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
    """Freeze the whole server: its machine answers, it does not."""
    first = psutil.Process(postgres.pid)
    processes = [first, *first.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


# -- away, and back


def test_connections_that_were_cut_are_made_anew(postgres: PostgresServer, store: SqlStore, url: str) -> None:
    """Nobody is told: not the road, not the lease."""
    attend(store, "/lake/trips")
    cut_off(postgres, url)

    assert store.request(a_run()).id == "r1"
    assert store.renew(ME, lease=LEASE)


def test_a_server_that_was_stopped_is_temporary_trouble_until_it_is_back(
    postgres: PostgresServer, store: SqlStore
) -> None:
    """What was acknowledged is there afterwards, and the store needs no restart."""
    attend(store, "/lake/trips")
    run = store.claim(store.request(a_run()).id, owner=ME, at=NOW)

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


def test_a_frozen_server_is_not_waited_for(postgres: PostgresServer, store: SqlStore) -> None:
    """Its own time-outs stand still with it: ours do not, and the connections are not used again."""
    attend(store, "/lake/trips")
    with frozen(postgres):
        began = time.monotonic()
        with pytest.raises(TemporaryError):
            store.active()
        with pytest.raises(TemporaryError):
            store.renew(ME, lease=LEASE)
        assert time.monotonic() - began < 15

    assert store.active() == []
    assert store.renew(ME, lease=LEASE)


def test_a_statement_that_takes_too_long_is_ended(store: SqlStore) -> None:
    """By the server, which then is there for the next one."""
    with pytest.raises(TemporaryError, match="it was stopped, or took too long"), store._read() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(30)")

    assert store.active() == []


def test_a_transaction_that_stands_still_lets_go_of_its_locks(store: SqlStore) -> None:
    """Its process may be frozen for hours; others need the rows."""
    with pytest.raises(TemporaryError):
        _stand_still_until_others_can_share(store)


def _stand_still_until_others_can_share(store: SqlStore) -> None:
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


# -- others on the same database


def test_a_row_that_somebody_else_holds_is_temporary_trouble(store: SqlStore) -> None:
    """Nothing of the failed call is left behind, and the next one succeeds."""
    attend(store, "/lake/trips")
    run = store.request(a_run())
    with store._write() as connection:
        connection.execute(sa.select(schema.runs).with_for_update())
        with pytest.raises(TemporaryError, match="somebody else holds what we need locked"):
            store.claim(run.id, owner=ME, at=NOW)

    assert store.run(run.id) == run
    assert store.claim(run.id, owner=ME, at=NOW).epoch == 1


def test_a_lease_is_renewed_whatever_the_others_wait_for(url: str) -> None:
    """Every connection is in use, and every row but its own is held: renewals have a way of their own."""
    store = open_postgres(DatabaseSettings(url=url), patience=replace(HASTY, idle=timedelta(minutes=1)))
    attend(store, "/lake/trips")
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
    """The server finds it, one of them is told to try again, and the other one goes on."""
    store = open_postgres(DatabaseSettings(url=url))
    store.pause(None, reason="", at=NOW)
    store.mark_dirty(["/lake/trips"])
    both = threading.Barrier(2)
    troubles = list[LakewardenError]()

    def lock(first: sa.Table, second: sa.Table) -> None:
        try:
            with store._write() as connection:
                connection.execute(sa.select(first).with_for_update())
                both.wait()
                connection.execute(sa.select(second).with_for_update())
        except TemporaryError as trouble:
            troubles.append(trouble)

    tables = (schema.pauses, schema.dirty)
    threads = [threading.Thread(target=lock, args=order) for order in (tables, tables[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()

    (trouble,) = troubles
    assert "others wrote the same at the same time" in str(trouble)


# -- at the same moment


def test_a_share_stays_where_it_is_while_a_run_is_claimed(store: SqlStore) -> None:
    """Else its next holder would not see the run, and begin another one beside it."""
    attend(store, "/lake/trips")
    with store._write() as connection:
        check_attends(connection, ME, "/lake/trips")
        with pytest.raises(TemporaryError, match="somebody else holds"):
            store.leave(ME)

    store.leave(ME)
    assert store.shares() == {}


def test_a_renewal_on_its_way_is_waited_for_before_a_run_is_adopted(store: SqlStore) -> None:
    """It was asked for in time, and its answer will say that the lease goes on."""
    run = store.claim(store.request(a_run()).id, owner=attend(store, "/lake/trips"), at=NOW)
    heir = ReplicaId("heir")
    store.join(a_replica(heir), lease=LEASE)
    owners_lease = sa.update(schema.replicas).where(schema.replicas.c.id == ME)
    with store._write() as connection:
        connection.execute(owners_lease.values(lease_until=from_now()))
        connection.execute(sa.update(schema.shares).values(replica=heir))

    with store._write() as connection:
        connection.execute(owners_lease.values(lease_until=from_now(LEASE)))
        with pytest.raises(TemporaryError, match="somebody else holds"):
            store.adopt(run.id, owner=heir)
    with pytest.raises(SupersededError, match="the lease of replica me still runs"):
        store.adopt(run.id, owner=heir)


def test_a_run_that_is_ended_at_the_same_moment_is_not_claimed(
    postgres: PostgresServer, store: SqlStore, url: str
) -> None:
    """The claim waits for the ending, and sees it."""
    attend(store, "/lake/trips")
    run = store.request(a_run())
    ending = sa.update(schema.runs).values(state=RunState.CANCELLED, ended_at=NOW)

    answer = _meanwhile(postgres, store, url, [ending], lambda patient: patient.claim(run.id, owner=ME, at=NOW))

    assert isinstance(answer, SupersededError)
    assert store.active() == []


@pytest.mark.parametrize("what", ["progress", "end"])
def test_a_result_that_comes_while_its_run_is_adopted_is_rejected(
    postgres: PostgresServer, store: SqlStore, url: str, what: str
) -> None:
    """It waits for the adoption, and is too late."""
    run = store.claim(store.request(a_run()).id, owner=attend(store, "/lake/trips"), at=NOW)
    adopting = [sa.update(schema.leases).values(epoch=2), sa.update(schema.runs).values(epoch=2, owner="heir")]

    def report(patient: SqlStore) -> Run:
        if what == "progress":
            return patient.progress(run.id, epoch=1, step=Step.COMMIT)
        return patient.end(run.id, epoch=1, state=RunState.SUCCEEDED, outcome="completed", at=NOW)

    answer = _meanwhile(postgres, store, url, adopting, report)

    assert isinstance(answer, SupersededError)
    (adopted,) = store.active()
    assert (adopted.epoch, adopted.step) == (2, None)


def _meanwhile(
    postgres: PostgresServer,
    store: SqlStore,
    url: str,
    changes: Sequence[sa.Update],
    act: Callable[[SqlStore], Run],
) -> Run | SupersededError:
    """Return what an act is told that meets `changes` before they are committed, and waits for them."""
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


# -- refusals


def test_a_database_that_is_read_only_is_temporary_trouble(postgres: PostgresServer, store: SqlStore, url: str) -> None:
    """A standby becomes a primary, an operator ends the maintenance: then it goes on."""
    name = sa.make_url(url).database
    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    cut_off(postgres, url)
    with pytest.raises(TemporaryError, match="it cannot be written now"):
        store.request(a_run())

    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = off")
    cut_off(postgres, url)
    assert store.request(a_run()).id == "r1"


def test_a_server_that_does_not_let_us_in_is_named_with_the_remedy(postgres: PostgresServer) -> None:
    """Trying again changes nothing: the database or the user is not there."""
    for url in (postgres.url("nowhere"), postgres.url("postgres", user="nobody")):
        with pytest.raises(PermanentError, match="does not let us in: correct the database's url") as refused:
            open_postgres(DatabaseSettings(url=url))
        assert str(refused.value).startswith(f"the store {url}")


def test_a_user_without_rights_is_refused(postgres: PostgresServer, url: str) -> None:
    """It may come in, and may not make the schema."""
    postgres.execute("postgres", "DROP ROLE IF EXISTS guest")
    postgres.execute("postgres", "CREATE ROLE guest LOGIN")

    with pytest.raises(PermanentError, match="permission denied"):
        open_postgres(DatabaseSettings(url=url.replace("postgres@", "guest@")))

    postgres.execute("postgres", "DROP ROLE guest")


def test_a_server_that_is_not_there_may_come_yet(tmp_path: Path) -> None:
    """It is not a mistake of the configuration, as far as anybody can tell."""
    with pytest.raises(TemporaryError, match="it cannot be reached"):
        open_postgres(DatabaseSettings(url=f"postgresql://me@/x?host={tmp_path}"))


def test_the_password_is_read_anew_with_every_connection(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """It may be changed where it is kept while the daemon runs, and appears in no message."""
    file = tmp_path / "password"
    file.write_text("first one\n")
    with postgres.guarded_user("keeper", password="first one") as set_password:
        settings = DatabaseSettings(url=url.replace("postgres@", "keeper@"), password=Secret(file=file))
        postgres.execute(url, "GRANT ALL ON SCHEMA public TO keeper")
        store = open_postgres(settings)

        set_password("second one")
        cut_off(postgres, url)
        with pytest.raises(PermanentError, match="does not let us in") as refused:
            store.active()
        assert "first one" not in str(refused.value)

        file.write_text("second one\n")
        assert store.active() == []
        store.close()
        postgres.execute(url, "DROP OWNED BY keeper")


# -- errors that cannot be had by asking


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (psycopg.errors.DiskFull("no space left"), TemporaryError, "it has run out of space"),
        (psycopg.errors.TooManyConnections("too many"), TemporaryError, "it has run out of space, memory or connec"),
        (psycopg.errors.SerializationFailure("again"), TemporaryError, "others wrote the same"),
        (psycopg.errors.DataCorrupted("invalid page"), PermanentError, "is damaged: stop the daemon and put its last"),
        (psycopg.errors.UniqueViolation("twice"), sa.exc.DBAPIError, "twice"),
    ],
)
def test_an_error_says_what_is_done_next(theirs: psycopg.Error, ours: type[Exception], said: str) -> None:
    """And a mistake of this code is not called the database's."""
    with pytest.raises(ours, match=said), translated("postgresql://db/lakewarden"):
        raise sa.exc.DBAPIError("SELECT", {}, theirs)
