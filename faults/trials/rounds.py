"""The rounds. In each: wait until a run is held at the point, inject the fault, restart the daemon, wait until the
table has recovered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from faults.checking.store_reader import StoreReader
from faults.formats.trial import FormatTrial
from faults.injection.cluster_victims import ClusterVictims
from faults.injection.deaths import Deaths
from faults.injection.fault_injection import FaultInjection, Reached
from faults.injection.schedule import ScheduledFault, Victim
from faults.injection.victims import processes_of, thaw
from faults.trials.recovery import Recovery
from lakewarden.demo.daemon import DaemonProcess, RequestRefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service

_TICK_SECONDS = 0.1
_LOOK_EVERY_SECONDS = 0.3
_COMES_BY_ITSELF_SECONDS = 8.0
_ANY_WILL_DO_SECONDS = 25.0
_ASK_EVERY_SECONDS = 4.0
_POINT_WITHIN_SECONDS = 60.0
_READY_WITHIN_SECONDS = 240.0
_RECOVERED_WITHIN_SECONDS = 240.0
_DIES_WITHIN_SECONDS = 10.0


class NeverCameBackError(Exception):
    """The daemon did not do in time what it must. This is a violation, since the daemon is under test, and no error of
    the harness.
    """


class _TooLateError(Exception):
    """A condition did not become true in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One round and its outcome. `reached` is False if the point was not reached in time, and the fault was injected
    elsewhere.
    """

    fault: ScheduledFault
    reached: bool
    recovery: Recovery


class Rounds:
    """Runs the rounds against one daemon. Raises NeverCameBackError, and LakewardenError for errors of its own."""

    def __init__(
        self,
        *,
        format_trial: FormatTrial,
        environment: Environment,
        daemon: DaemonProcess,
        injection: FaultInjection,
        store_reader: StoreReader,
        deaths: Deaths,
        interruption: Interruption,
        cluster: ClusterVictims | None = None,
    ) -> None:
        self.rounds: list[Round] = []
        self.resumed = 0
        """How often a service was let out of its quarantine. So many faults in a row look like an error of the service.
        """
        self._format_trial = format_trial
        self._environment = environment
        self._daemon = daemon
        self._injection = injection
        self._store_reader = store_reader
        self._deaths = deaths
        self._interruption = interruption
        self._cluster = cluster
        self._clock = SystemClock()
        self._looked_at = 0.0
        self._draining = False

    def run(self, fault: ScheduledFault) -> Round:
        """Run one round."""
        self._injection.let_go()
        self._wait_until_ready()
        reached = self._stands_at(fault)
        this = self._inject(fault, reached)
        self.rounds.append(this)
        if fault.patient:
            self._injection.let_go()
            with contextlib.suppress(_TooLateError):  # the end of the trial shows whether it has recovered by then
                self.wait(lambda: this.recovery.over, at_most=_RECOVERED_WITHIN_SECONDS)
        return this

    def wait(self, until: Callable[[], bool], *, at_most: float) -> None:
        """Wait until a condition is true. Raises _TooLateError if it is not true in time."""
        deadline = self._clock.monotonic() + at_most
        while not until():
            if self._clock.monotonic() > deadline:
                raise _TooLateError(f"not done after {at_most:.0f} s")
            self._look_on()
            self._interruption.pause(_TICK_SECONDS)

    def drain(self, *, at_most: float) -> None:
        """Let the daemon finish everything and start nothing new."""
        self._draining = True
        self._injection.withdraw()
        self._injection.let_go()
        self._wait_until_ready()
        deadline = self._clock.monotonic() + at_most
        with _bounded("pending work is not finished", self._left_over):
            while True:
                for step in (self._is_drained, self._is_paused, self._is_idle):
                    self.wait(step, at_most=max(0.0, deadline - self._clock.monotonic()))
                if self._is_drained():
                    return
                with contextlib.suppress(
                    TemporaryError, RequestRefusedError
                ):  # a run began before the pause: once more
                    self._daemon.resume()

    def _is_paused(self) -> bool:
        try:
            self._daemon.pause()
        except (TemporaryError, RequestRefusedError):
            return False
        return True

    def _is_idle(self) -> bool:
        return not self._store_reader.active()

    def _is_drained(self) -> bool:
        self._look(self._clock.monotonic())
        if self._store_reader.active() or self._pending() or self._format_trial.left_over(self._environment):
            return False
        return all(one.recovery.over for one in self.rounds)

    def _left_over(self) -> str:
        runs = [f"run {run} has not ended" for run in self._store_reader.active()]
        plans = [f"{one.service} {one.instant} is pending" for one in self._format_trial.pending(self._environment)]
        return "; ".join([*runs, *plans, *self._format_trial.left_over(self._environment)])

    # -- the parts of a round

    def _wait_until_ready(self) -> None:
        with _bounded("the daemon and its worker are not ready"):
            self.wait(self._daemon.ready, at_most=_READY_WITHIN_SECONDS)

    def _stands_at(self, fault: ScheduledFault) -> Reached | None:
        """Return the run that is held at the point, None after a while. A run is requested if none comes by itself."""
        self._injection.inject(fault)
        injected_at = self._clock.monotonic()
        ask_at, widened = injected_at + _COMES_BY_ITSELF_SECONDS, False

        def stands() -> bool:
            nonlocal ask_at, widened
            if self._injection.reached() is not None:
                return True
            now = self._clock.monotonic()
            if not widened and now > injected_at + _ANY_WILL_DO_SECONDS:
                widened = True
                self._injection.widen(fault)
            elif now > ask_at:
                ask_at = now + _ASK_EVERY_SECONDS
                self._ask_for(fault.service)
            return False

        with contextlib.suppress(_TooLateError):
            self.wait(stands, at_most=_POINT_WITHIN_SECONDS)
        self._injection.withdraw()
        return self._injection.reached()

    def _inject(self, fault: ScheduledFault, reached: Reached | None) -> Round:
        """Inject the fault, and restart the daemon if it died. The recovery has begun."""
        service = fault.service if reached is None else reached.service
        recovery = Recovery(
            service=service,
            run=None if reached is None else reached.run,
            pending=self._pending(of=service),
            injected_at=self._clock.monotonic(),
        )
        hit_itself = fault.by_itself and reached is not None
        frozen = [] if hit_itself else self._hit(fault.victim)
        try:
            self._injection.let_go()
            if fault.victim.daemon_dies:
                self._bring_back()
            if frozen or fault.victim.of_cluster:
                self._interruption.pause(fault.frozen_seconds)
        finally:
            thaw(frozen)
            if self._cluster is not None:
                self._cluster.repair()
        return Round(fault=fault, reached=reached is not None, recovery=recovery)

    def _hit(self, victim: Victim) -> list[psutil.Process]:
        """Hit a victim, and return the processes that are frozen. Executors are frozen before their driver dies."""
        of_cluster = () if self._cluster is None else self._cluster.inject(victim)
        return [*of_cluster, *processes_of(self._daemon.process.pid).inject(victim)]

    def _bring_back(self) -> None:
        with _bounded("the daemon was killed and still runs"):
            self.wait(lambda: self._daemon.process.exit_code is not None, at_most=_DIES_WITHIN_SECONDS)
        self._daemon.restart()

    def _ask_for(self, service: Service) -> None:
        with contextlib.suppress(TemporaryError, RequestRefusedError):
            self._daemon.request_run(service)

    # -- observing

    def _look_on(self) -> None:
        self._environment.check()
        if not self._deaths.watching:
            raise PermanentError("the JVMs are not watched any more: the watching thread has failed")
        code = self._daemon.process.exit_code
        if code is not None and code >= 0:
            raise NeverCameBackError(f"the daemon ended by itself with {code}: {self._daemon.process.last_words()}")
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._look(now)

    def _look(self, now: float) -> None:
        self._looked_at = now
        if not self._draining:
            self._format_trial.make_work(self._environment)
        active, pending, blocked = self._store_reader.active(), self._pending(), self._store_reader.blocked()
        for one in self.rounds:
            reason = blocked.get(one.recovery.service, "")
            one.recovery.look(active=active, pending=pending, blocked=reason, at=now)
        if any(reason.startswith("in quarantine") for reason in blocked.values()):
            with contextlib.suppress(TemporaryError, RequestRefusedError):
                self._daemon.resume()
                self.resumed += 1

    def _pending(self, of: Service | None = None) -> set[str]:
        """Return the pending instants of one service or of all services."""
        found = self._format_trial.pending(self._environment)
        return {one.instant for one in found if of is None or one.service is of}


@contextmanager
def _bounded(what: str, left_over: Callable[[], str] = str) -> Iterator[None]:
    """Report as the daemon's error what did not become true in time, with the work that is left."""
    try:
        yield
    except _TooLateError as late:
        raise NeverCameBackError(f"{what}: {late}; {left_over()}".removesuffix("; ")) from late
