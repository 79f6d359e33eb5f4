"""The proof with several replicas on one PostgreSQL: they are killed and frozen at random."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from faults.deaths import Deaths
from faults.deck import Victim, dealt
from faults.evidence import pending_on, read_shared_runs
from faults.ledger import PostgresLedger
from faults.report import Seconds, counts, tell_verdict, told_runs
from faults.rounds import NeverCameBackError
from faults.scenery import POLICIES, SPARK, Scenery, endings
from faults.victims import household, thaw
from lakewarden.demo.daemon import Daemon, RefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.demo import PIECE as HUDI
from lakewarden.demo.formats.hudi.demo import table_entry
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.report import WriterTally
from lakewarden.executors import witness
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support.postgres import running_postgres

LEASE_SECONDS = 15.0

_VICTIMS = (
    *(Victim.DAEMON,) * 2,
    *(Victim.BOTH,) * 2,
    *(Victim.FROZEN_DAEMON,) * 2,
    *(Victim.FROZEN_ALL,) * 2,
    Victim.JVM,
    Victim.DAEMON_BESIDE_FROZEN_WORKER,
)
_BETWEEN_BLOWS_SECONDS = (8.0, 25.0)
_AWAY_SECONDS = (1.0, 1.6 * LEASE_SECONDS)
_HOLDER = (True, True, False)
"""How often the blow is for the replica that attends the table: it is the one with work."""

_TICK_SECONDS = 0.2
_DRAINED_WITHIN_SECONDS = 420.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicasReport:
    """What one trial saw. `moved_seconds` lasts from a blow at the replica that attended the table until another one,
    or the next life of the same one, attends it: of the blows that cost it its share.
    """

    seed: int
    replicas: int
    lease_seconds: float
    seconds: float
    blows: int
    by_victim: Mapping[str, int]
    violations: Sequence[str]
    moved: int
    moved_seconds: Seconds
    writer: WriterTally
    runs: Mapping[str, Mapping[str, int]]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def tell(self, console: Console) -> None:
        """Print it for people."""
        console.print(f"{self.replicas} replicas with seed {self.seed}, {self.seconds:.0f} s", style="bold")
        moved = self.moved_seconds
        for line in (
            f"blows     {self.blows}: {counts(self.by_victim)}",
            f"runs      {told_runs(self.runs)}",
            f"writer    {self.writer.commits} commits, {self.writer.failures} failed",
            f"moved     {self.moved} times, {moved.p50:.1f} s in the middle, {moved.max:.1f} s at most, "
            f"with a lease of {self.lease_seconds:.0f} s",
        ):
            console.print(line, soft_wrap=True)
        tell_verdict(console, self.violations, seed=self.seed)


@dataclass(kw_only=True)
class _Away:
    """A replica that was struck, and how it comes back."""

    daemon: Daemon
    victim: Victim
    frozen: Sequence[psutil.Process]
    until: float


@dataclass(kw_only=True)
class _Move:
    """A blow at the replica that attended the table. `moved_at` is when the next life of anybody attended it."""

    holder: str
    struck_at: float
    moved_at: float | None = None


@dataclass(kw_only=True)
class Outages:
    """Strikes replicas at random, each of them for some seconds, and brings them back."""

    daemons: Sequence[Daemon]
    ledger: PostgresLedger
    dice: random.Random
    blows: list[Victim] = field(default_factory=list)
    moves: list[_Move] = field(default_factory=list)
    _away: list[_Away] = field(default_factory=list)
    _next_at: float = 0.0

    def __post_init__(self) -> None:
        self._victims = dealt(self.dice, _VICTIMS)
        self._for_holder = dealt(self.dice, _HOLDER)

    def look(self, now: float, *, strike: bool) -> str | None:
        """Bring back whoever is due, and strike if it is time to; return what was done, in words."""
        self._look_who_attends(now)
        for away in [away for away in self._away if now >= away.until]:
            self._away.remove(away)
            self._bring_back(away)
        if not strike or now < self._next_at:
            return None
        self._next_at = now + self.dice.uniform(*_BETWEEN_BLOWS_SECONDS)
        return self._strike(now)

    def end(self) -> None:
        """Bring back everybody."""
        while self._away:
            self._bring_back(self._away.pop())

    def check(self) -> None:
        """Raise NeverCameBackError if a replica has ended that nobody has struck."""
        struck = [away.daemon for away in self._away]
        for number, daemon in enumerate(self.daemons, start=1):
            code = daemon.process.exit_code
            if code is not None and daemon not in struck:
                raise NeverCameBackError(f"replica {number} ended by itself with {code}: {daemon.process.last_words()}")

    def _strike(self, now: float) -> str | None:
        up = [daemon for daemon in self.daemons if daemon not in [away.daemon for away in self._away]]
        holder = self.ledger.holder()
        attending = [daemon for daemon in up if holder is not None and _is(daemon, holder)]
        victim, for_holder = next(self._victims), next(self._for_holder)
        candidates = attending if for_holder and attending else up
        if not candidates:
            return None
        daemon = self.dice.choice(candidates)
        seconds = self.dice.uniform(*_AWAY_SECONDS)
        frozen = household(daemon.process.pid).strike(victim)
        self.blows.append(victim)
        self._away.append(_Away(daemon=daemon, victim=victim, frozen=frozen, until=now + seconds))
        if holder is not None and daemon in attending:
            self.moves.append(_Move(holder=holder, struck_at=now))
        whose = "which attends the table" if daemon in attending else "beside it"
        return f"replica {self.daemons.index(daemon) + 1}, {whose}: {victim.value} for {seconds:.1f} s"

    def _bring_back(self, away: _Away) -> None:
        thaw(away.frozen)
        if away.victim.daemon_dies:
            while away.daemon.process.exit_code is None:  # killed with SIGKILL: it is gone in a moment
                time.sleep(0.01)
            away.daemon.restart()

    def _look_who_attends(self, now: float) -> None:
        waiting = [move for move in self.moves if move.moved_at is None]
        holder = self.ledger.holder() if waiting else None
        for move in waiting:
            if holder is not None and holder != move.holder:
                move.moved_at = now


def play(
    directory: Path,
    console: Console,
    interruption: Interruption,
    *,
    replicas: int,
    writers: int,
    minutes: float,
    seed: int,
) -> ReplicasReport:
    """Play all of it and return the report. Raises LakewardenError for trouble that is not the replicas'."""
    begun = time.monotonic()
    scenery = Scenery(directory, interruption)
    with running_postgres() as postgres:
        url = postgres.make_database()
        with Deaths(scenery.arms.witness) as deaths, Environment(directory, HUDI) as stage:
            outages = _play_outages(
                replicas=replicas,
                writers=writers,
                minutes=minutes,
                seed=seed,
                stage=stage,
                scenery=scenery,
                deaths=deaths,
                ledger=PostgresLedger(url),
                console=console,
            )
        runs = read_shared_runs(url)
    took = [move.moved_at - move.struck_at for move in outages.moves if move.moved_at is not None]
    return ReplicasReport(
        seed=seed,
        replicas=replicas,
        lease_seconds=LEASE_SECONDS,
        seconds=round(time.monotonic() - begun, 1),
        blows=len(outages.blows),
        by_victim={victim.value: times for victim, times in sorted(Counter(outages.blows).items())},
        violations=scenery.judge(stage, runs),
        moved=len(took),
        moved_seconds=Seconds.of(took),
        writer=scenery.writers_tally(),
        runs=endings(runs),
    )


def _play_outages(
    *,
    replicas: int,
    writers: int,
    minutes: float,
    seed: int,
    stage: Environment,
    scenery: Scenery,
    deaths: Deaths,
    ledger: PostgresLedger,
    console: Console,
) -> Outages:
    """Strike for some minutes, end the writers, let the replicas finish, and end them."""
    zookeeper = scenery.start_zookeeper(stage)
    settings = {
        "spark": SPARK,
        "database": {"url": ledger.url},
        "daemon": {"lease": f"{LEASE_SECONDS:.0f}s"},
    }
    daemons = []
    for number in range(1, replicas + 1):
        daemon = stage.start_daemon(
            table=table_entry(stage.table, zookeeper=zookeeper.address),
            services=POLICIES,
            name=f"replica-{number}",
            settings=settings,
            variables={witness.VARIABLE: str(scenery.arms.witness)},
        )
        stage.dismiss(daemon.process)  # it may die
        daemons.append(daemon)
    outages = Outages(daemons=daemons, ledger=ledger, dice=random.Random(seed))
    writing = scenery.start_writers(stage, daemons[0], seed=seed, writers=writers)
    scenery.until(lambda: any(daemon.ready() for daemon in daemons), stage, otherwise="no replica is ready")

    def look(*, strike: bool) -> None:
        stage.check()
        if not deaths.watching:
            raise PermanentError("nobody watches over the JVMs any more: the watching thread has failed")
        outages.check()
        if done := outages.look(time.monotonic(), strike=strike):
            console.print(f"{len(outages.blows):>4}  {done}", markup=False, soft_wrap=True)
        scenery.interruption.pause(_TICK_SECONDS)

    try:
        with _brought_back(outages):
            ends_at = time.monotonic() + minutes * 60
            while time.monotonic() < ends_at and not scenery.writer_has_failed():
                look(strike=True)
            outages.end()
            scenery.end_writers(stage, writing)
            _drain(outages, stage, look)
    except NeverCameBackError as silence:
        scenery.accuse(str(silence))
        scenery.end_writers(stage, writing)
    for daemon in daemons:
        scenery.end_daemon(daemon)
    return outages


@contextlib.contextmanager
def _brought_back(outages: Outages) -> Iterator[None]:
    """Leave nobody frozen, whatever happens."""
    try:
        yield
    finally:
        outages.end()


def _drain(outages: Outages, stage: Environment, look: Callable[..., None]) -> None:
    """Let the replicas finish everything, and begin nothing more."""
    deadline = time.monotonic() + _DRAINED_WITHIN_SECONDS

    def until(true: Callable[[], bool]) -> None:
        while not true():
            if time.monotonic() > deadline:
                raise NeverCameBackError(
                    f"what was left half-way is not finished after {_DRAINED_WITHIN_SECONDS:.0f} s"
                )
            look(strike=False)

    def finished() -> bool:
        return not outages.ledger.active() and not _services_pending(stage)

    def told(order: Callable[[Daemon], None]) -> bool:
        for daemon in outages.daemons:
            with contextlib.suppress(TemporaryError, RefusedError):
                order(daemon)
                return True
        return False

    while True:
        until(finished)
        until(lambda: told(Daemon.pause))
        until(lambda: not outages.ledger.active())
        if finished():
            return
        until(lambda: told(Daemon.resume))


def _services_pending(stage: Environment) -> set[str]:
    """Return the pending instants that are not a writer's."""
    return {instant for instant, action in pending_on(stage.table) if action not in ("commit", "deltacommit")}


def _is(daemon: Daemon, replica: str) -> bool:
    """Whether a replica is this daemon's: its id names the process, as `<host>:<process id>:<when it began>`."""
    return f":{daemon.process.pid}:" in replica
