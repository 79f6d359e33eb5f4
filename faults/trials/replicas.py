"""The trial with several replicas on one PostgreSQL: they are killed and frozen at random."""

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

from faults.checking.evidence import read_shared_runs
from faults.checking.store_reader import PostgresStoreReader
from faults.formats.trial import FormatTrial
from faults.injection.deaths import Deaths
from faults.injection.schedule import Victim, shuffled
from faults.injection.victims import processes_of, thaw
from faults.trials.report import Seconds, counts, tell_verdict, told_runs
from faults.trials.rounds import NeverCameBackError
from faults.trials.trial_setup import SPARK, TrialSetup, endings
from lakewarden.demo.daemon import DaemonProcess, RequestRefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.report import WriterTally
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support import doubles
from tests.support.doubles import witness
from tests.support.store.postgres import running_postgres

LEASE_SECONDS = 15.0

_VICTIMS = (
    *(Victim.DAEMON,) * 2,
    *(Victim.BOTH,) * 2,
    *(Victim.FROZEN_DAEMON,) * 2,
    *(Victim.FROZEN_ALL,) * 2,
    Victim.JVM,
    Victim.DAEMON_BESIDE_FROZEN_WORKER,
)
_BETWEEN_FAULTS_SECONDS = (8.0, 25.0)
_AWAY_SECONDS = (1.0, 1.6 * LEASE_SECONDS)
_HOLDER = (True, True, False)
"""How often the fault is for the replica that owns the table, which is the one with work."""

_TICK_SECONDS = 0.2
_DRAINED_WITHIN_SECONDS = 420.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicasReport:
    """What one trial saw. `moved_seconds` are of the faults that cost the owner of the table its share. They last from
    the fault until another replica owns the table, or the next life of the same replica does.
    """

    seed: int
    replicas: int
    lease_seconds: float
    seconds: float
    faults: int
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
            f"faults    {self.faults}: {counts(self.by_victim)}",
            f"runs      {told_runs(self.runs)}",
            f"writer    {self.writer.commits} commits, {self.writer.failures} failed",
            f"moved     {self.moved} times, {moved.p50:.1f} s median, {moved.max:.1f} s at most, "
            f"with a lease of {self.lease_seconds:.0f} s",
        ):
            console.print(line, soft_wrap=True)
        tell_verdict(console, self.violations, seed=self.seed)


@dataclass(kw_only=True)
class _Away:
    """A replica that was killed or frozen, and how it comes back."""

    daemon: DaemonProcess
    victim: Victim
    frozen: Sequence[psutil.Process]
    until: float


@dataclass(kw_only=True)
class _Move:
    """A fault at the replica that owned the table. `moved_at` is when the next life of any replica owned it."""

    holder: str
    injected_at: float
    moved_at: float | None = None


@dataclass(kw_only=True)
class Outages:
    """Kills and freezes replicas at random, each of them for some seconds, and brings them back."""

    daemons: Sequence[DaemonProcess]
    store_reader: PostgresStoreReader
    rng: random.Random
    faults: list[Victim] = field(default_factory=list)
    moves: list[_Move] = field(default_factory=list)
    _away: list[_Away] = field(default_factory=list)
    _next_at: float = 0.0

    def __post_init__(self) -> None:
        self._victims = shuffled(self.rng, _VICTIMS)
        self._for_holder = shuffled(self.rng, _HOLDER)

    def look(self, now: float, *, inject: bool) -> str | None:
        """Bring back each replica that is due. If it is time, inject the next fault. Return what was done, in words."""
        self._look_who_owns(now)
        for away in [away for away in self._away if now >= away.until]:
            self._away.remove(away)
            self._bring_back(away)
        if not inject or now < self._next_at:
            return None
        self._next_at = now + self.rng.uniform(*_BETWEEN_FAULTS_SECONDS)
        return self._inject(now)

    def end(self) -> None:
        """Bring back every replica."""
        while self._away:
            self._bring_back(self._away.pop())

    def check(self) -> None:
        """Raise NeverCameBackError if a replica has ended without a fault."""
        away = [one.daemon for one in self._away]
        for number, daemon in enumerate(self.daemons, start=1):
            code = daemon.process.exit_code
            if code is not None and daemon not in away:
                raise NeverCameBackError(f"replica {number} ended by itself with {code}: {daemon.process.last_words()}")

    def _inject(self, now: float) -> str | None:
        up = [daemon for daemon in self.daemons if daemon not in [one.daemon for one in self._away]]
        holder = self.store_reader.holder()
        owning = [daemon for daemon in up if holder is not None and _is(daemon, holder)]
        victim, for_holder = next(self._victims), next(self._for_holder)
        candidates = owning if for_holder and owning else up
        if not candidates:
            return None
        daemon = self.rng.choice(candidates)
        seconds = self.rng.uniform(*_AWAY_SECONDS)
        frozen = processes_of(daemon.process.pid).inject(victim)
        self.faults.append(victim)
        self._away.append(_Away(daemon=daemon, victim=victim, frozen=frozen, until=now + seconds))
        if holder is not None and daemon in owning:
            self.moves.append(_Move(holder=holder, injected_at=now))
        whose = "which owns the table" if daemon in owning else "beside it"
        return f"replica {self.daemons.index(daemon) + 1}, {whose}: {victim.value} for {seconds:.1f} s"

    def _bring_back(self, away: _Away) -> None:
        thaw(away.frozen)
        if away.victim.daemon_dies:
            while away.daemon.process.exit_code is None:  # killed with SIGKILL: it is gone in a moment
                time.sleep(0.01)
            away.daemon.restart()

    def _look_who_owns(self, now: float) -> None:
        waiting = [move for move in self.moves if move.moved_at is None]
        holder = self.store_reader.holder() if waiting else None
        for move in waiting:
            if holder is not None and holder != move.holder:
                move.moved_at = now


def run(
    directory: Path,
    console: Console,
    interruption: Interruption,
    *,
    format_trial: FormatTrial,
    replicas: int,
    writers: int,
    minutes: float,
    seed: int,
) -> ReplicasReport:
    """Run the trial and return the report. Raises LakewardenError for errors that are not the replicas'."""
    begun = time.monotonic()
    setup = TrialSetup(directory, interruption, format_trial)
    with running_postgres() as postgres:
        url = postgres.make_database()
        with (
            Deaths(setup.injection.witness) as deaths,
            Environment(directory, format_trial.format_demo) as environment,
        ):
            outages = _run_outages(
                replicas=replicas,
                writers=writers,
                minutes=minutes,
                seed=seed,
                environment=environment,
                setup=setup,
                deaths=deaths,
                store_reader=PostgresStoreReader(url),
                console=console,
            )
        runs = read_shared_runs(url)
    took = [move.moved_at - move.injected_at for move in outages.moves if move.moved_at is not None]
    return ReplicasReport(
        seed=seed,
        replicas=replicas,
        lease_seconds=LEASE_SECONDS,
        seconds=round(time.monotonic() - begun, 1),
        faults=len(outages.faults),
        by_victim={victim.value: times for victim, times in sorted(Counter(outages.faults).items())},
        violations=setup.judge(environment, runs),
        moved=len(took),
        moved_seconds=Seconds.of(took),
        writer=setup.writers_tally(),
        runs=endings(runs),
    )


def _run_outages(
    *,
    replicas: int,
    writers: int,
    minutes: float,
    seed: int,
    environment: Environment,
    setup: TrialSetup,
    deaths: Deaths,
    store_reader: PostgresStoreReader,
    console: Console,
) -> Outages:
    """Inject faults for some minutes, end the writers, let the replicas finish, and end them."""
    entry = setup.table_entry(environment)
    settings = {
        "spark": SPARK,
        "database": {"url": store_reader.url},
        "daemon": {"lease": f"{LEASE_SECONDS:.0f}s"},
    }
    daemons = []
    for number in range(1, replicas + 1):
        daemon = environment.start_daemon(
            table=entry,
            services=setup.format_trial.policies,
            name=f"replica-{number}",
            settings=settings,
            variables={witness.VARIABLE: str(setup.injection.witness)},
            serve=doubles.DAEMON,
        )
        environment.expect_end(daemon.process)  # it may die
        daemons.append(daemon)
    outages = Outages(daemons=daemons, store_reader=store_reader, rng=random.Random(seed))
    writing = setup.start_writers(environment, daemons[0], seed=seed, writers=writers)
    setup.until(lambda: any(daemon.ready() for daemon in daemons), environment, otherwise="no replica is ready")

    def look(*, inject: bool) -> None:
        environment.check()
        if not deaths.watching:
            raise PermanentError("the JVMs are not watched any more: the watching thread has failed")
        outages.check()
        if done := outages.look(time.monotonic(), inject=inject):
            console.print(f"{len(outages.faults):>4}  {done}", markup=False, soft_wrap=True)
        setup.interruption.pause(_TICK_SECONDS)

    try:
        with _brought_back(outages):
            ends_at = time.monotonic() + minutes * 60
            while time.monotonic() < ends_at and not setup.writer_has_failed():
                look(inject=True)
            outages.end()
            setup.end_writers(environment, writing)
            _drain(outages, setup.format_trial, environment, look)
    except NeverCameBackError as silence:
        setup.accuse(str(silence))
        setup.end_writers(environment, writing)
    for daemon in daemons:
        setup.end_daemon(daemon)
    return outages


@contextlib.contextmanager
def _brought_back(outages: Outages) -> Iterator[None]:
    """Leave no replica frozen, whatever happens."""
    try:
        yield
    finally:
        outages.end()


def _drain(outages: Outages, format_trial: FormatTrial, environment: Environment, look: Callable[..., None]) -> None:
    """Let the replicas finish everything and start nothing new."""
    deadline = time.monotonic() + _DRAINED_WITHIN_SECONDS

    def until(true: Callable[[], bool]) -> None:
        while not true():
            if time.monotonic() > deadline:
                raise NeverCameBackError(f"pending work is not finished after {_DRAINED_WITHIN_SECONDS:.0f} s")
            look(inject=False)

    def finished() -> bool:
        return not outages.store_reader.active() and not format_trial.pending(environment)

    def told(order: Callable[[DaemonProcess], None]) -> bool:
        for daemon in outages.daemons:
            with contextlib.suppress(TemporaryError, RequestRefusedError):
                order(daemon)
                return True
        return False

    while True:
        until(finished)
        until(lambda: told(DaemonProcess.pause))
        until(lambda: not outages.store_reader.active())
        if finished():
            return
        until(lambda: told(DaemonProcess.resume))


def _is(daemon: DaemonProcess, replica: str) -> bool:
    """Whether a replica is this daemon: its id names the process, as `<host>:<process id>:<when it began>`."""
    return f":{daemon.process.pid}:" in replica
