"""A daemon over fake tables tells a real receiver what needs an operator: once, and whatever the receiver does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Policy, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.config.daemon.notifications import DebtLimits, NotificationSettings
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.notices.finding import notices_of
from lakewarden.service.reporting.notices.message import MOST_LINES
from lakewarden.service.reporting.notices.notifier import FIRST_REST, LONGEST_REST, Notifier, notifying
from lakewarden.service.store.port import Store
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, prepare
from tests.support.receiver import TAKEN, Receiver, receiving, with_status
from tests.support.store.stores import new_sqlite

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a receiver that takes everything at first."""
    with receiving() as made:
        yield made


class Told:
    """A daemon whose notices go to a receiver."""

    def __init__(self, harness: DaemonHarness, receiver: Receiver, folder: Path, **settings: Any) -> None:
        (folder / "url").write_text(receiver.url, encoding="utf-8")
        url = {"url": {"file": str(folder / "url")}, "timeout": "1s"}
        self.harness = harness
        self.receiver = receiver
        self.settings = NotificationSettings.model_validate({**url, "payload": "json", **settings})
        self.counts: list[str] = []
        self.notifier = self.begin("one")

    def begin(self, replica: str) -> Notifier:
        """Return the notifier of a replica."""
        harness = self.harness
        page, count = "http://page.example/", self.counts.append
        return Notifier(
            harness.status, harness.store, self.settings, harness.clock, replica=replica, page=page, count=count
        )

    def looks(self, after: timedelta = MINUTE) -> list[dict[str, Any]]:
        """Look after this time, and return the notices that the receiver got."""
        self.harness.for_a_while(after)
        before = len(self.receiver.bodies)
        self.notifier.look()
        bodies = self.receiver.bodies[before:]
        return [notice for body in bodies for notice in json.loads(body).get("notices", [])]


def quarantine(harness: DaemonHarness, table: TableId = TRIPS, *, reason: str | None = "it fails") -> None:
    """Put the compaction of a table in quarantine, or release it."""
    harness.answered(harness.status.quarantine(table, Service.COMPACTION, reason=reason))


def test_a_quarantine_is_told_once(tmp_path: Path, receiver: Receiver) -> None:
    """With what it is, the service, and the address of the page of its table."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path)
    assert told.looks() == []
    quarantine(told.harness)
    assert told.looks() == [
        {
            "table": "trips",
            "kind": "quarantine",
            "service": "compaction",
            "message": "compaction is in quarantine: it fails",
            "contact": None,
            "link": "http://page.example/tables/trips",
        }
    ]
    assert told.looks() == []
    assert told.counts == ["sent"]


def test_an_approval_that_waits_is_told_with_its_figures(tmp_path: Path, receiver: Receiver) -> None:
    """An approval ends it. A deletion that waits later is told again, because it is another one."""
    clean = {Service.CLEAN: Policy(trigger=NumCommits(at_least=1))}
    harness = DaemonHarness(tmp_path, policies=clean, budget=DeletionBudget(files=0))
    prepare(harness.lake)
    harness.until(lambda: RunState.CANCELLED in harness.states(Service.CLEAN))
    told = Told(harness, receiver, tmp_path)
    [notice] = told.looks()
    assert (notice["kind"], notice["service"]) == ("approval", "clean")
    assert notice["message"].startswith("clean would delete ")
    assert told.looks() == []

    harness.answered(harness.status.approve(TRIPS, Service.CLEAN, by="ada"))
    harness.until(lambda: RunState.SUCCEEDED in harness.states(Service.CLEAN))
    assert told.looks() == []
    prepare(harness.lake)
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: harness.states(Service.CLEAN).count(RunState.CANCELLED) == 2)
    assert [one["kind"] for one in told.looks()] == ["approval"]


def test_a_write_that_failed_is_told_for_a_day(tmp_path: Path, receiver: Receiver) -> None:
    """The timeline may show it for much longer. Who starts the daemon then need not hear of it."""
    harness = DaemonHarness(tmp_path)
    failed = harness.lake.begin_write()
    told = Told(harness, receiver, tmp_path)
    [notice] = told.looks(2 * MINUTE)
    assert notice["kind"] == "writer_failure"
    assert f"the write {failed} failed" in notice["message"]
    assert notice["message"].endswith("no run of Lakewarden was near it")
    status = harness.status.table(TRIPS)
    assert status is not None
    for age, known in ((23 * HOUR, 1), (25 * HOUR, 0)):
        assert len([*notices_of(status, [], {}, DebtLimits(), harness.clock.now() + age)]) == known


def test_debt_beyond_a_limit_is_told(tmp_path: Path, receiver: Receiver) -> None:
    """For the service that it is the debt of, with the figure and the limit. Without limits there is none."""
    never = {Service.COMPACTION: Policy(trigger=NumCommits(at_least=1000))}
    harness = DaemonHarness(tmp_path, policies=never)
    harness.write(4)
    assert Told(harness, receiver, tmp_path).looks() == []
    told = Told(harness, receiver, tmp_path, debt={"commits": 4})
    assert told.looks() == []
    harness.write(1)
    [notice] = told.looks()
    assert notice["message"] == "compaction has 5 commits since its last run, and the limit is 4"


def test_only_what_is_asked_for_is_told(tmp_path: Path, receiver: Receiver) -> None:
    """A team may want failed writes in one channel, and nothing else."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path, about=["writer_failure"])
    quarantine(told.harness)
    assert told.looks() == []


def test_what_comes_together_is_one_message(tmp_path: Path, receiver: Receiver) -> None:
    """A hundred tables do not mean a hundred messages. The text names the first ones, and counts the others."""
    names = [f"t{number:02}" for number in range(MOST_LINES + 5)]
    harness = DaemonHarness(tmp_path, names=names)
    for name in names:
        quarantine(harness, TableId(name))
    told = Told(harness, receiver, tmp_path)
    assert len(told.looks()) == len(names)
    [body] = receiver.bodies
    text = json.loads(body)["text"].splitlines()
    assert text[0] == f"Lakewarden: {len(names)} notices"
    assert len(text) == MOST_LINES + 2
    assert text[1].startswith("• quarantine, <http://page.example/tables/t00|t00>: compaction is in quarantine")
    assert text[-1] == "and 5 more: http://page.example/"


def test_two_messages_have_a_distance(tmp_path: Path, receiver: Receiver) -> None:
    """What comes meanwhile is in the next one."""
    harness = DaemonHarness(tmp_path, names=["a", "b", "c"])
    told = Told(harness, receiver, tmp_path, every="10m")
    quarantine(harness, TableId("a"))
    assert [one["table"] for one in told.looks()] == ["a"]
    quarantine(harness, TableId("b"))
    assert told.looks() == []
    quarantine(harness, TableId("c"))
    assert [one["table"] for one in told.looks(10 * MINUTE)] == ["b", "c"]


def test_a_cause_that_comes_and_goes_is_told_once_in_a_while(tmp_path: Path, receiver: Receiver) -> None:
    """Otherwise a figure beside its limit would fill a channel. After `quiet` without the cause it is news."""
    harness = DaemonHarness(tmp_path)
    told = Told(harness, receiver, tmp_path, quiet="1h")
    for minutes, news in ((1, True), (30, False), (30, False), (61, True)):
        quarantine(harness, reason=None)
        told.looks()
        told.looks(timedelta(minutes=minutes))
        quarantine(harness)
        assert bool(told.looks()) is news


@pytest.mark.long
@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_message_that_was_not_taken_is_sent_again(tmp_path: Path, receiver: Receiver, status: int) -> None:
    """After a time that doubles. What came meanwhile is in the same message, and nothing piles up."""
    harness = DaemonHarness(tmp_path, names=["a", "b"])
    told = Told(harness, receiver, tmp_path)
    receiver.answer = with_status(status)
    quarantine(harness, TableId("a"))
    assert len(told.looks()) == 1
    assert told.looks(timedelta(0)) == []
    for _ in range(12):
        told.looks(LONGEST_REST)
    assert len(receiver.bodies) == 13
    quarantine(harness, TableId("b"))
    assert told.counts == ["failed"] * 13

    receiver.answer = TAKEN
    assert [one["table"] for one in told.looks(LONGEST_REST)] == ["a", "b"]
    assert told.looks(LONGEST_REST) == []
    assert told.counts == ["failed"] * 13 + ["sent"]


def test_a_receiver_that_asks_for_patience_gets_it(tmp_path: Path, receiver: Receiver) -> None:
    """But not for ever: a wrong answer must not silence the messages."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path)
    quarantine(told.harness)
    receiver.answer = with_status(429, Retry_After="300")
    told.looks()
    assert told.looks(FIRST_REST * 4) == []
    receiver.answer = with_status(429, Retry_After="999999")
    assert len(told.looks(5 * MINUTE)) == 1
    receiver.answer = TAKEN
    assert len(told.looks(LONGEST_REST)) == 1


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_receiver_that_hangs_is_given_up_and_tried_again(tmp_path: Path, receiver: Receiver, how: str) -> None:
    """The message is sent again, whether or not the receiver had taken it."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path)
    quarantine(told.harness)
    receiver.answer = getattr(receiver, how)
    told.looks()
    assert told.counts == ["failed"]
    receiver.answer = TAKEN
    assert len(told.looks()) == 1


def test_a_restart_tells_nothing_twice_and_forgets_nothing(tmp_path: Path, receiver: Receiver) -> None:
    """The store remembers what was told. What was not told is found again."""
    with closing(new_sqlite(tmp_path / "store")) as store:
        harness = DaemonHarness(tmp_path, names=["a", "b"], store=store)
        told = Told(harness, receiver, tmp_path)
        quarantine(harness, TableId("a"))
        assert len(told.looks()) == 1
        receiver.answer = with_status(500)
        quarantine(harness, TableId("b"))
        told.looks()

        harness.compose()
        receiver.answer = TAKEN
        told.notifier = told.begin("two")
        assert told.looks() == [], "the first replica has a claim, and may be sending"
        assert [one["table"] for one in told.looks(10 * MINUTE)] == ["b"]


def test_two_replicas_tell_of_a_cause_once(tmp_path: Path, receiver: Receiver) -> None:
    """As when a table has just moved from one to the other."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path)
    other = told.begin("two")
    quarantine(told.harness)
    assert len(told.looks()) == 1
    told.harness.for_a_while(HOUR)
    assert other.look() == 0
    assert len(receiver.bodies) == 1


def test_names_of_tables_and_reasons_make_no_mention_and_no_link(tmp_path: Path, receiver: Receiver) -> None:
    """A reason may contain the name of a file, which a writer has chosen."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path, payload="slack")
    quarantine(told.harness, reason="<!channel> & <https://evil.example|x>\n\x1b[31m")
    told.looks()
    [body] = receiver.bodies
    assert json.loads(body).keys() == {"text"}
    text = json.loads(body)["text"]
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|x&gt;" in text
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_a_store_that_is_away_ends_no_thread(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of a daemon looks again and again, in the end with success."""
    told = Told(DaemonHarness(tmp_path), receiver, tmp_path)
    quarantine(told.harness)
    told.harness.for_a_while(MINUTE)
    monkeypatch.setattr(told.notifier, "next_look", lambda: timedelta(milliseconds=1))
    errors = iter([RuntimeError("a bug")])
    store: Store = told.harness.store
    notices = store.notices
    monkeypatch.setattr(store, "notices", lambda: [] if (error := next(errors, None)) is None else _raised(error))
    with notifying(told.notifier):
        told.harness.until(lambda: bool(receiver.bodies), within=timedelta(days=9))
    assert notices()


def _raised(error: Exception) -> Any:
    raise error


def test_without_a_webhook_nothing_runs() -> None:
    """No thread looks at the tables."""
    with notifying(None):
        pass


def test_nothing_is_found_in_a_healthy_table(tmp_path: Path, receiver: Receiver) -> None:
    """Also while its services run."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    told = Told(harness, receiver, tmp_path)
    for _ in range(4):
        harness.write(3)
        assert told.looks() == []
    assert harness.states()
