"""The rounds: wait until a run stands at the point, strike, bring the daemon back, wait until all is whole again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from faults.arms import Arms, Reached
from faults.deaths import Deaths
from faults.deck import Strike
from faults.evidence import pending_on
from faults.ledger import Ledger
from faults.recovery import Recovery
from faults.victims import household, thaw
from lakewarden.demo.daemon import Daemon, RefusedError
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
_WHOLE_WITHIN_SECONDS = 240.0
_DIES_WITHIN_SECONDS = 10.0

_ACTIONS = {Service.LOG_COMPACTION: "logcompaction"}
"""What a pending plan is called on the timeline, where that is not the service's own name."""


class NeverCameBackError(Exception):
    """The daemon, which is on trial, did not do in time what it must: a violation, and no trouble of the harness."""


class _TooLateError(Exception):
    """Something did not come true in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Struck:
    """One round as it went. `reached` is False where the point was not reached in time, and the blow fell elsewhere."""

    strike: Strike
    reached: bool
    recovery: Recovery


class Rounds:
    """Plays the rounds against one daemon. Raises NeverCameBackError, and for trouble of its own LakewardenError."""

    def __init__(
        self,
        *,
        stage: Environment,
        daemon: Daemon,
        arms: Arms,
        ledger: Ledger,
        deaths: Deaths,
        interruption: Interruption,
    ) -> None:
        self.struck: list[Struck] = []
        self.resumed = 0
        """How often a service was let out of its quarantine: so many blows in a row look like a fault of its own."""
        self._stage = stage
        self._daemon = daemon
        self._arms = arms
        self._ledger = ledger
        self._deaths = deaths
        self._interruption = interruption
        self._clock = SystemClock()
        self._looked_at = 0.0

    def play(self, strike: Strike) -> Struck:
        """Play one round."""
        self._arms.let_go()
        self._wait_until_ready()
        reached = self._stands_at(strike)
        struck = self._strike(strike, reached)
        self.struck.append(struck)
        if strike.patient:
            self._arms.let_go()
            with contextlib.suppress(_TooLateError):  # the end will show whether it is whole by then
                self.wait(lambda: struck.recovery.over, at_most=_WHOLE_WITHIN_SECONDS)
        return struck

    def wait(self, until: Callable[[], bool], *, at_most: float) -> None:
        """Look on until something is true. Raises _TooLateError if it is not in time."""
        deadline = self._clock.monotonic() + at_most
        while not until():
            if self._clock.monotonic() > deadline:
                raise _TooLateError(f"not done after {at_most:.0f} s")
            self._look_on()
            self._interruption.pause(_TICK_SECONDS)

    def drain(self, *, at_most: float) -> None:
        """Let the daemon finish everything, and begin nothing more."""
        self._arms.disarm()
        self._arms.let_go()
        self._wait_until_ready()
        deadline = self._clock.monotonic() + at_most
        with _bounded("what was left half-way is not finished"):
            while True:
                for step in (self._is_drained, self._is_paused, self._is_idle):
                    self.wait(step, at_most=max(0.0, deadline - self._clock.monotonic()))
                if self._is_drained():
                    return
                with contextlib.suppress(TemporaryError, RefusedError):  # a run began before the pause: once more
                    self._daemon.resume()

    def _is_paused(self) -> bool:
        try:
            self._daemon.pause()
        except (TemporaryError, RefusedError):
            return False
        return True

    def _is_idle(self) -> bool:
        return not self._ledger.active()

    def _is_drained(self) -> bool:
        self._look(self._clock.monotonic())
        return not self._ledger.active() and not self._pending() and all(s.recovery.over for s in self.struck)

    # -- the parts of a round

    def _wait_until_ready(self) -> None:
        with _bounded("the daemon and its worker are not ready"):
            self.wait(self._daemon.ready, at_most=_READY_WITHIN_SECONDS)

    def _stands_at(self, strike: Strike) -> Reached | None:
        """Return who stands at the point, None after a while. A run is asked for where none comes by itself."""
        self._arms.arm(strike)
        armed_at = self._clock.monotonic()
        ask_at, widened = armed_at + _COMES_BY_ITSELF_SECONDS, False

        def stands() -> bool:
            nonlocal ask_at, widened
            if self._arms.reached() is not None:
                return True
            now = self._clock.monotonic()
            if not widened and now > armed_at + _ANY_WILL_DO_SECONDS:
                widened = True
                self._arms.widen(strike)
            elif now > ask_at:
                ask_at = now + _ASK_EVERY_SECONDS
                self._ask_for(strike.service)
            return False

        with contextlib.suppress(_TooLateError):
            self.wait(stands, at_most=_POINT_WITHIN_SECONDS)
        self._arms.disarm()
        return self._arms.reached()

    def _strike(self, strike: Strike, reached: Reached | None) -> Struck:
        """Strike, and bring the daemon back where it died; the recovery has begun."""
        service = strike.service if reached is None else reached.service
        recovery = Recovery(
            service=service,
            run=None if reached is None else reached.run,
            pending=self._pending(of=service),
            struck_at=self._clock.monotonic(),
        )
        struck_itself = strike.by_itself and reached is not None
        frozen = () if struck_itself else household(self._daemon.process.pid).strike(strike.victim)
        try:
            self._arms.let_go()
            if strike.victim.daemon_dies:
                self._bring_back()
            if frozen:
                self._interruption.pause(strike.frozen_seconds)
        finally:
            thaw(frozen)
        return Struck(strike=strike, reached=reached is not None, recovery=recovery)

    def _bring_back(self) -> None:
        with _bounded("the daemon was killed and lives"):
            self.wait(lambda: self._daemon.process.exit_code is not None, at_most=_DIES_WITHIN_SECONDS)
        self._daemon.restart()

    def _ask_for(self, service: Service) -> None:
        with contextlib.suppress(TemporaryError, RefusedError):
            self._daemon.request_run(service)

    # -- looking on

    def _look_on(self) -> None:
        self._stage.check()
        if not self._deaths.watching:
            raise PermanentError("nobody watches over the JVMs any more: the watching thread has failed")
        code = self._daemon.process.exit_code
        if code is not None and code >= 0:
            raise NeverCameBackError(f"the daemon ended by itself with {code}: {self._daemon.process.last_words()}")
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._look(now)

    def _look(self, now: float) -> None:
        self._looked_at = now
        active, pending, blocked = self._ledger.active(), self._pending(), self._ledger.blocked()
        for struck in self.struck:
            reason = blocked.get(struck.recovery.service, "")
            struck.recovery.look(active=active, pending=pending, blocked=reason, at=now)
        if any(reason.startswith("in quarantine") for reason in blocked.values()):
            with contextlib.suppress(TemporaryError, RefusedError):
                self._daemon.resume()
                self.resumed += 1

    def _pending(self, of: Service | None = None) -> set[str]:
        """Return the pending instants, of one service or of all that are not a writer's."""
        wanted = {_ACTIONS.get(service, service.value) for service in (Service if of is None else (of,))}
        return {instant for instant, action in pending_on(self._stage.table) if action in wanted}


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """Say of the daemon what did not come true in time."""
    try:
        yield
    except _TooLateError as late:
        raise NeverCameBackError(f"{what}: {late}") from late
