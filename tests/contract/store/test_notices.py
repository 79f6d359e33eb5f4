"""Notices, in every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.table import TableId
from lakewarden.service.model.notices import NoticeKind, NoticeRow
from lakewarden.service.store.port import Store

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NOTICE = NoticeRow(
    table=TableId("sales.orders"),
    kind=NoticeKind.DEBT,
    subject="compaction",
    found_at=NOW,
    replica="one",
    claimed_until=NOW + MINUTE,
)


def test_a_notice_is_claimed_by_one_replica(store: Store) -> None:
    """Two replicas that find the same cause do not both tell of it."""
    assert store.claim_notices([NOTICE], at=NOW) == [NOTICE]
    assert store.claim_notices([replace(NOTICE, replica="two")], at=NOW) == []
    assert store.notices() == [NOTICE]


def test_a_replica_may_claim_its_own_again(store: Store) -> None:
    """It tries again after a failure, whenever its claim ends."""
    store.claim_notices([NOTICE], at=NOW)
    again = replace(NOTICE, claimed_until=NOW + 2 * MINUTE)
    assert store.claim_notices([again], at=NOW) == [again]
    assert store.notices() == [again]


def test_the_claim_of_a_dead_replica_ends(store: Store) -> None:
    """Another replica sends what it had claimed and not sent."""
    store.claim_notices([NOTICE], at=NOW)
    other = replace(NOTICE, replica="two", claimed_until=NOW + 9 * MINUTE)
    assert store.claim_notices([other], at=NOW + MINUTE) == [other]


def test_what_was_sent_is_claimed_no_more(store: Store) -> None:
    """Neither by another replica nor after a restart."""
    sent = replace(NOTICE, sent_at=NOW)
    store.claim_notices([NOTICE], at=NOW)
    store.keep_notices([sent])
    assert store.claim_notices([NOTICE, replace(NOTICE, replica="two")], at=NOW + 9 * MINUTE) == []
    assert store.notices() == [sent]


def test_each_part_of_its_name_makes_another_notice(store: Store) -> None:
    """Its table, its kind and its subject."""
    others = [
        replace(NOTICE, table=TableId("b")),
        replace(NOTICE, kind=NoticeKind.APPROVAL),
        replace(NOTICE, subject="b"),
    ]
    assert len(store.claim_notices([NOTICE, *others], at=NOW)) == 4
    store.forget_notices([NOTICE])
    assert sorted(row.key for row in store.notices()) == sorted(row.key for row in others)
    assert store.claim_notices([NOTICE], at=NOW) == [NOTICE]
