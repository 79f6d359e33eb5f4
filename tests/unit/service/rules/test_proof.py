"""The proof of a table: each check is ok, not proved, or wrong, and what is wrong has a cure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.lock_proof import Evidence, ProofState
from lakewarden.planners.model.decision import OTHER
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check, Proof, ProofResult
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.model.view import Blocker, KeptMore, ReaderPosition
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.rules.proof import ALONE_FOR, ProofFacts, in_words, missing, proofs
from tests.support.values import NOW, a_view, an_instant

TRIPS = Table(
    id=TableId("trips"),
    format="fake",
    location="/lake/trips",
    mode=Mode.ACT,
    policies={Service.CLEAN: Policy(trigger=NumCommits(at_least=1))},
    budget=DeletionBudget(asks_shorter=True),
)
PROVED = Evidence(lock="zk", verdict=ProofState.PROVED, witnessed=3)
GOOD = ProofFacts(
    table=TRIPS,
    now=NOW,
    view=a_view(an_instant()),
    evidence=PROVED,
    hook_at=NOW,
    beat_at=NOW,
    slots={"default": 1},
)
ANOTHER = an_instant(time="77", stands_for=Service.CLEAN, completed_at=NOW - timedelta(hours=2))

KEPT_24 = KeptMore(says="the policy keeps 10 commits, where the newest clean 77 kept 24", instant="77")


def of(check: Check, **news: Any) -> Proof:
    """Return one check of a table on which everything else is good."""
    found = {one.check: one for one in proofs(replace(GOOD, **news))}
    assert [one.check for one in found.values() if not one.is_ok and one.check is not check] == []
    return found[check]


def blocked(reason: str, code: str = OTHER) -> Any:
    """Return a view with a block of the whole table."""
    return a_view(an_instant(), blockers=(Blocker(code=code, reason=reason, remedy="do this"),))


def test_a_table_on_which_everything_is_good_is_proved() -> None:
    """Each check is ok, and nothing has to be done."""
    found = proofs(GOOD)
    assert {one.check for one in found} == set(Check)
    assert missing(found, TRIPS) == ()
    assert all(one.cure is None for one in found)


@pytest.mark.parametrize(
    ("check", "news", "result"),
    [
        (Check.LOCK, {"evidence": replace(PROVED, verdict=ProofState.UNKNOWN)}, ProofResult.NOT_PROVED),
        (Check.LOCK, {"evidence": replace(PROVED, verdict=ProofState.DISPROVED, without="9")}, ProofResult.WRONG),
        (
            Check.LOCK,
            {"view": blocked("no lock is configured that its writers share", "lock_missing")},
            ProofResult.WRONG,
        ),
        (Check.HEARTBEATS, {"beat_at": None}, ProofResult.NOT_PROVED),
        (Check.HOOK, {"hook_at": None}, ProofResult.NOT_PROVED),
        (Check.ALONE, {"foreign_services": (ANOTHER,)}, ProofResult.WRONG),
        (Check.READERS, {"view": a_view(readers=(ReaderPosition(name="a", unreadable="gone"),))}, ProofResult.WRONG),
        (Check.RETENTION, {"kept_by_others": {Service.CLEAN: KEPT_24}}, ProofResult.WRONG),
        (Check.ZONE, {"view": blocked("the zone of its timeline is not proved", "zone_not_proved")}, ProofResult.WRONG),
        (Check.CLOCK, {"view": a_view(an_instant(requested_at=NOW + timedelta(hours=1)))}, ProofResult.WRONG),
        (Check.WORKERS, {"slots": {"default": 0}}, ProofResult.NOT_PROVED),
        (Check.WORKERS, {"slots": {}}, ProofResult.NOT_PROVED),
        (Check.TABLE, {"view": blocked("the table uses something")}, ProofResult.WRONG),
        (Check.TABLE, {"view": a_view(faults=("a file cannot be read",))}, ProofResult.WRONG),
        (Check.TABLE, {"failure": "the store does not answer"}, ProofResult.WRONG),
    ],
)
def test_each_doubt_is_one_check_with_a_cure(check: Check, news: dict[str, Any], result: ProofResult) -> None:
    """The other checks stay ok. So a person reads what to do, and nothing else."""
    found = of(check, **news)
    assert found.result is result
    assert found.cure
    assert in_words([found]).startswith(f"{check}: ")


def test_a_table_that_was_not_observed_is_not_proved() -> None:
    """A failure is wrong. Without one, its first observation is waited for."""
    assert [one.result for one in proofs(replace(GOOD, view=None))] == [ProofResult.NOT_PROVED]
    assert [one.result for one in proofs(replace(GOOD, view=None, failure="gone"))] == [ProofResult.WRONG]


def test_another_program_is_named_for_a_day() -> None:
    """With its service, its instant and the moment from which on the table counts as free of it."""
    found = of(Check.ALONE, foreign_services=(ANOTHER,))
    assert "clean 77" in found.found
    assert "2026-05-02 10:00 UTC" in str(found.cure)
    assert of(Check.ALONE, foreign_services=(ANOTHER,), now=NOW + ALONE_FOR).is_ok


def test_a_table_does_without_what_its_policy_leaves_out() -> None:
    """Other checks are still needed."""
    table = replace(TRIPS, proof_without=frozenset({Check.HOOK}))
    found = proofs(replace(GOOD, table=table, hook_at=None, beat_at=None))
    assert [one.check for one in missing(found, table)] == [Check.HEARTBEATS]


def test_a_table_without_writers_waits_for_no_hook() -> None:
    """`writers: none` declares that no writer announces a commit. Without it, a hook is waited for."""
    alone = replace(TRIPS, options=HudiTableOptions(writers="none"))
    facts = replace(GOOD, table=alone, evidence=None, beat_at=None, hook_at=None)
    assert missing(proofs(facts), alone) == ()
    live = replace(TRIPS, options=HudiTableOptions(writers="live"))
    assert [one.check for one in missing(proofs(replace(facts, table=live)), live)] == [Check.HOOK]


def test_a_format_without_hooks_and_locks_needs_neither() -> None:
    """Its own commits keep the writers apart. Heartbeats belong to the writers under a lock."""
    found = proofs(replace(GOOD, evidence=None, beat_at=None, hook_at=None, has_hook=False))
    assert missing(found, TRIPS) == ()
    assert not {one.check for one in found} & {Check.HOOK, Check.HEARTBEATS}


def test_a_lock_is_not_proved_while_the_table_is_only_observed() -> None:
    """Nothing watches it then."""
    observed = replace(TRIPS, mode=Mode.OBSERVE)
    assert of(Check.LOCK, table=observed, evidence=None).result is ProofResult.NOT_PROVED


def test_workers_that_rest_are_no_lack_of_the_table() -> None:
    """They are started when a run waits for them. Workers that do not come up for it are one."""
    resting = of(Check.WORKERS, slots={"default": 0}, resting={"default"})
    assert (resting.result, resting.found) == (
        ProofResult.OK,
        "its workers are started when a run waits for them, with their jars",
    )
    assert of(Check.WORKERS, slots={"default": 0}).result is ProofResult.NOT_PROVED


def test_a_shorter_retention_that_the_configuration_allows_is_no_doubt() -> None:
    """`budget.shorter_retention: allow` is the word of an operator. It is said, and nothing waits for it."""
    kept = {Service.CLEAN: KEPT_24}
    assert of(Check.RETENTION, kept_by_others=kept).result is ProofResult.WRONG
    allowing = of(Check.RETENTION, table=replace(TRIPS, budget=DeletionBudget()), kept_by_others=kept)
    assert allowing.is_ok
    assert "kept 24" in allowing.found


def test_a_table_may_do_without_the_retention_of_its_writers() -> None:
    """Then its first clean still waits for an approval of its numbers."""
    found = proofs(replace(GOOD, kept_by_others={Service.CLEAN: KEPT_24}))
    assert [one.check for one in missing(found, TRIPS)] == [Check.RETENTION]
    assert missing(found, replace(TRIPS, proof_without=frozenset({Check.RETENTION}))) == ()
