"""The proof of a table: whether Lakewarden can serve it beside its writers without harm. Pure.

Each check is ok, not proved, or wrong. What is not proved yet becomes ok by the next commits of the writers. What is
wrong has a cure. `docs/take_over.md` says what each check protects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from lakewarden.planners.lock_proof import Evidence, ProofState, summary
from lakewarden.planners.model.decision import MEND_THE_TABLE
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.proof import Check, Proof, not_proved, proved, wrong
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import Blocker, KeptMore, TableView

CLOCKS_APART = timedelta(minutes=1)
"""A timeline that is further ahead of the daemon than this shows that a clock is wrong."""

ALONE_FOR = timedelta(days=1)
"""For how long no other program may have completed a service that has a policy here."""

_OF_LOCKS = {"lock_missing", "lock_not_shared", "lock_not_proved"}
_OF_ZONES = {"zone_not_proved"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofFacts:
    """What the checks judge. `evidence` is that of the lock. None if nothing has to be proved.

    `hook_at` and `beat_at` are when a hook of the table, and a heartbeat of a write, were first seen. `has_hook`: the
    writers of the format can announce commits. `foreign_services` are the services that other programs have completed.
    `kept_by_others` is what the writers kept and the policies do not. `slots` are those of the workers, by profile. A
    profile is missing if its workers are not started. `resting` are the profiles with workers that are started when a
    run waits for them.
    """

    table: Table
    now: datetime
    view: TableView | None = None
    failure: str | None = None
    evidence: Evidence | None = None
    hook_at: datetime | None = None
    beat_at: datetime | None = None
    has_hook: bool = True
    foreign_services: Sequence[Instant] = ()
    kept_by_others: Mapping[Service, KeptMore] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    resting: Collection[str] = ()


def proofs(facts: ProofFacts) -> tuple[Proof, ...]:
    """Return the result of every check."""
    if facts.view is None:
        if facts.failure is None:
            return (not_proved(Check.TABLE, "it was not observed yet", "wait for its first observation"),)
        return (wrong(Check.TABLE, facts.failure, MEND_THE_TABLE),)
    return tuple(_of_view(facts, facts.view))


def missing(proofs: Sequence[Proof], table: Table) -> tuple[Proof, ...]:
    """Return the checks that keep Lakewarden from acting. Those that the table does without are left out."""
    return tuple(proof for proof in proofs if not proof.is_ok and proof.check not in table.proof_without)


def in_words(proofs: Sequence[Proof]) -> str:
    """Return what is not proved, in words."""
    return "; ".join(f"{proof.check}: {proof.found}" for proof in proofs)


def proofs_of_view(table: Table, view: TableView, now: datetime) -> Iterator[Proof]:
    """Yield the results of the checks that need no daemon: one look at the table is enough for them."""
    whole = [blocker for blocker in view.blockers if not blocker.services and not blocker.moot]
    yield _table(view, [blocker for blocker in whole if blocker.code not in _OF_LOCKS | _OF_ZONES])
    locks = [blocker for blocker in view.blockers if blocker.code in _OF_LOCKS]
    if locks:
        yield wrong(Check.LOCK, locks[0].reason, locks[0].remedy)
    yield _readers(view)
    zones = [blocker for blocker in whole if blocker.code in _OF_ZONES]
    if zones:
        yield wrong(Check.ZONE, zones[0].reason, zones[0].remedy)
    else:
        yield proved(Check.ZONE, f"its workers use {table.zone}, and nothing on the timeline contradicts that")
    yield _clock(view, now)


def _of_view(facts: ProofFacts, view: TableView) -> Iterator[Proof]:
    here = {proof.check: proof for proof in proofs_of_view(facts.table, view, facts.now)}
    yield here[Check.TABLE] if facts.failure is None else wrong(Check.TABLE, facts.failure, MEND_THE_TABLE)
    yield here.get(Check.LOCK) or _lock(facts)
    yield from _heartbeats(facts)
    yield from _hook(facts)
    yield _alone(facts)
    yield here[Check.READERS]
    yield _retention(facts.table, facts.kept_by_others)
    yield here[Check.ZONE]
    yield here[Check.CLOCK]
    yield _workers(facts)


def _table(view: TableView, blockers: Sequence[Blocker]) -> Proof:
    if view.faults:
        return wrong(Check.TABLE, view.faults[0], "restore the part of the metadata that cannot be read")
    if blockers:
        return wrong(Check.TABLE, blockers[0].reason, blockers[0].remedy)
    version = f": version {view.version}" if view.version else ""
    return proved(Check.TABLE, f"its metadata can be read{version}")


def _lock(facts: ProofFacts) -> Proof:
    evidence = facts.evidence
    if evidence is None:
        if facts.table.mode is Mode.OBSERVE:
            return not_proved(Check.LOCK, "the lock is watched from the mode plan on", "set mode to plan or act")
        return proved(Check.LOCK, "no lock has to be proved for this format, or with these options")
    match evidence.verdict:
        case ProofState.PROVED:
            return proved(Check.LOCK, summary(evidence))
        case ProofState.UNKNOWN:
            cure = "wait for the next commits; a lock that is never taken is not the lock of the writers"
            return not_proved(Check.LOCK, summary(evidence), cure)
        case ProofState.DISPROVED:
            table = facts.table.id
            cure = (
                f"give all writers the options of `lakewarden writer-options {table}`, "
                f"then `lakewarden tables resume {table}`"
            )
            return wrong(Check.LOCK, summary(evidence), cure)
        case _:
            assert_never(evidence.verdict)


def _heartbeats(facts: ProofFacts) -> Iterator[Proof]:
    """Yield the check of heartbeats, if a lock of the writers has to be proved. Only such writers have them."""
    if facts.evidence is None:
        return
    if facts.beat_at is not None:
        yield proved(Check.HEARTBEATS, f"a heartbeat of a write was seen at {facts.beat_at:%Y-%m-%d %H:%M:%S} UTC")
    elif getattr(facts.table.options, "failed_writes", None) == "lazy":
        yield proved(Check.HEARTBEATS, "the options declare that all writers have them (failed_writes: lazy)")
    else:
        cure = (
            f"set what `lakewarden writer-options {facts.table.id}` says about failed writes; "
            "a write is seen while it is in flight"
        )
        yield not_proved(Check.HEARTBEATS, "no write in flight has shown a heartbeat yet", cure)


def _hook(facts: ProofFacts) -> Iterator[Proof]:
    without_writers = getattr(facts.table.options, "writers", None) == "none"
    if not facts.has_hook or (without_writers and facts.hook_at is None):
        return
    if facts.hook_at is None:
        cure = (
            f"set the callback that `lakewarden writer-options {facts.table.id}` shows; if it shows none, set "
            "proof_without: [hook]"
        )
        yield not_proved(Check.HOOK, "no hook of the table has arrived yet", cure)
    else:
        yield proved(Check.HOOK, f"a hook has arrived at {facts.hook_at:%Y-%m-%d %H:%M:%S} UTC")


def _alone(facts: ProofFacts) -> Proof:
    others = [service for service in facts.foreign_services if _completed(service) > facts.now - ALONE_FOR]
    if not others:
        return proved(Check.ALONE, "no other program has completed a service of it within a day")
    newest = max(others, key=_completed)
    cure = (
        "switch it off in the writers, jobs and optimizers of the table, as `lakewarden writer-options` says; "
        f"it is proved at {_completed(newest) + ALONE_FOR:%Y-%m-%d %H:%M} UTC if none follows"
    )
    return wrong(Check.ALONE, foreign_in_words(newest, len(others)), cure)


def foreign_in_words(newest: Instant, number: int) -> str:
    """Return which service another program has completed."""
    more = "" if number == 1 else f", and {number - 1} more before it"
    return f"another program has completed {newest.stands_for} {newest.time} at {_completed(newest):%H:%M:%S} UTC{more}"


def foreign_warning(others: Sequence[Instant]) -> str:
    """Return a warning about the services that other programs have completed."""
    sentence = foreign_in_words(max(others, key=_completed), len(others))
    return f"{sentence}: two programs serve the table. Switch that service off in its writers, jobs and optimizers"


def _completed(instant: Instant) -> datetime:
    return instant.completed_at or instant.requested_at


def _readers(view: TableView) -> Proof:
    for reader in view.readers:
        if reader.unreadable is not None:
            return wrong(Check.READERS, f"{reader.name}: {reader.unreadable}", "correct options.readers")
    return proved(Check.READERS, f"the positions of {len(view.readers)} declared readers are known")


def _retention(table: Table, kept: Mapping[Service, KeptMore]) -> Proof:
    """Return whether the policies keep what the writers kept. Readers may count on that."""
    if not kept:
        return proved(Check.RETENTION, "no policy of it keeps less than its writers kept")
    sentence = "; ".join(f"{service}: {more.says}" for service, more in sorted(kept.items()))
    if not table.budget.asks_shorter:
        return proved(Check.RETENTION, f"{sentence}. The configuration allows it (budget.shorter_retention)")
    cure = (
        "keep as much in the policy. If no reader needs it: set budget.shorter_retention: allow, or "
        "proof_without: [retention], and approve the first clean"
    )
    return wrong(Check.RETENTION, sentence, cure)


def _clock(view: TableView, now: datetime) -> Proof:
    newest = max((instant.requested_at for instant in view.timeline.instants), default=None)
    if newest is not None and newest > now + CLOCKS_APART:
        ahead = (newest - now).total_seconds()
        cure = "synchronize the clocks of the writers and the daemon with NTP, or correct the time zone"
        return wrong(Check.CLOCK, f"its newest instant is {ahead:.0f}s ahead of this daemon", cure)
    return proved(Check.CLOCK, "no instant is ahead of this daemon")


def _workers(facts: ProofFacts) -> Proof:
    for name in sorted(facts.table.profiles()):
        if name not in facts.slots:
            cure = "set mode: act in the file, with act_when: proved; the workers fetch their jars when they start"
            return not_proved(Check.WORKERS, f"no worker of spark.{name} is started", cure)
        if not facts.slots[name] and name not in facts.resting:
            return not_proved(
                Check.WORKERS, f"no worker of spark.{name} is up yet", "`lakewarden doctor` checks its JVM"
            )
    if any(not facts.slots[name] for name in facts.table.profiles()):
        return proved(Check.WORKERS, "its workers are started when a run waits for them, with their jars")
    return proved(Check.WORKERS, "its workers are up, with their jars")
