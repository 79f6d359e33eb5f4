"""Answers to requests with keys, in every kind of store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.service.model import answers
from lakewarden.service.model.answers import AnswerRow, TooManyAnswersError
from lakewarden.service.store.port import Store
from lakewarden.service.store.sql import acts as sql_answers

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
PAUSE = AnswerRow(
    caller="c" * 64,
    route="r" * 64,
    key="k" * 255,
    digest="d" * 64,
    replica="one",
    created_at=NOW,
    claimed_until=NOW + timedelta(minutes=6),
)


def test_a_key_is_claimed_once(store: Store) -> None:
    """The second request gets the row of the first one, whatever its body and its replica."""
    assert store.claim_answer(PAUSE) is None
    assert store.claim_answer(replace(PAUSE, digest="other", replica="two", created_at=NOW + timedelta(1))) == PAUSE


def test_each_part_of_the_name_of_a_request_counts(store: Store) -> None:
    """Two callers do not see each other's answers, and one key may be used for two routes."""
    store.claim_answer(PAUSE)
    for row in (replace(PAUSE, caller="b"), replace(PAUSE, route="b"), replace(PAUSE, key="b")):
        assert store.claim_answer(row) is None


def test_an_answer_comes_back_as_it_was(store: Store) -> None:
    """With any text in its body, also none. The first answer stays."""
    for number, body in enumerate(["", None, '{"reason":"\\u0000 \\ud800 ü"}']):
        row = replace(PAUSE, key=f"k{number}")
        store.claim_answer(row)
        store.keep_answer(replace(row, status=202, body=body))
        store.keep_answer(replace(row, status=500, body="late"))
        store.drop_answer(row)
        assert store.claim_answer(row) == replace(row, status=202, body=body)


def test_a_request_that_did_nothing_is_forgotten(store: Store) -> None:
    """It may then be tried anew. Another replica cannot forget it."""
    store.claim_answer(PAUSE)
    store.drop_answer(replace(PAUSE, replica="two"))
    assert store.claim_answer(PAUSE) == PAUSE
    store.drop_answer(PAUSE)
    assert store.claim_answer(replace(PAUSE, digest="other")) is None


def test_the_end_of_a_claim_is_kept(store: Store) -> None:
    """So a request whose end is not known is no longer one that is being carried out."""
    store.claim_answer(PAUSE)
    ended = replace(PAUSE, claimed_until=NOW)
    store.keep_answer(ended)
    assert store.claim_answer(PAUSE) == ended


def test_of_many_requests_at_once_one_claims_the_key(store: Store) -> None:
    """However many threads or replicas send it."""
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(store.claim_answer, [replace(PAUSE, replica=str(number)) for number in range(16)])]
    assert found.count(None) == 1


def test_old_answers_are_deleted_some_at_a_time(store: Store) -> None:
    """Those that are younger stay."""
    for days in range(4):
        store.claim_answer(replace(PAUSE, key=str(days), created_at=NOW + timedelta(days=days)))
    assert store.forget_answers(before=NOW + timedelta(days=3), most=2) == 2
    assert store.forget_answers(before=NOW + timedelta(days=3), most=2) == 1
    assert store.claim_answer(replace(PAUSE, key="3")) is not None
    assert store.claim_answer(replace(PAUSE, key="0")) is None


def test_a_caller_has_so_many_answers_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller cannot fill the store. Another caller is not affected, and neither is a key that is known."""
    for module in (answers, sql_answers):
        monkeypatch.setattr(module, "MOST_OF_A_CALLER", 3)
    for key in "abc":
        store.claim_answer(replace(PAUSE, key=key))
    with pytest.raises(TooManyAnswersError, match="3 keys within a day"):
        store.claim_answer(replace(PAUSE, key="d"))
    assert store.claim_answer(replace(PAUSE, key="a")) is not None
    assert store.claim_answer(replace(PAUSE, key="d", caller="another")) is None
    assert store.claim_answer(replace(PAUSE, key="d", created_at=NOW + timedelta(days=2))) is None
