"""When a session worker must be killed or replaced, when it is started again, and how many there are.

Three rules of a pool: kills (`Watchdog`), the circuit breaker of a profile, and the need for workers.

These are only rules: no process, no thread, no clock. The pool calls them under its lock. Times are seconds of one
monotonic clock, given by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.settings import format_duration, format_size


@dataclass(frozen=True, kw_only=True, slots=True)
class KillReason:
    """Why a worker must be killed, and which runs have caused it. Without `culprits` the cause may be any run,
    or none.
    """

    reason: str
    culprits: frozenset[RunId] = frozenset()


@dataclass(kw_only=True, slots=True)
class Allowance:
    """How long a step may take: how long without an end of one of its Spark tasks (`expires`), and in all (`at_most`,
    None for no limit).
    """

    granted_at: float
    expires: timedelta
    at_most: timedelta | None
    advanced_at: float | None = None

    @property
    def ends_at(self) -> float:
        """Return when the allowance is over if no further task ends before."""
        begun = self.granted_at if self.advanced_at is None else self.advanced_at
        quiet = begun + self.expires.total_seconds()
        if self.at_most is None:
            return quiet
        return min(quiet, self.granted_at + max(self.at_most, self.expires).total_seconds())


class Watchdog:
    """What is known of one worker, from its start on."""

    def __init__(self, profile: SparkProfile, *, started: float) -> None:
        self._profile = profile
        self._started = started
        self._last_proof: float | None = None
        self._permits: dict[RunId, Allowance] = {}
        self._advanced: dict[RunId, float] = {}
        self._graces: dict[RunId, float] = {}
        self._stops_until: float | None = None

    def proof_of_life(self, now: float) -> None:
        """Note that the worker's JVM has answered."""
        self._last_proof = now

    def permitted(self, run: RunId, allowance: Allowance) -> None:
        """Note the allowance of the step for which `run` has a permit."""
        self._permits[run] = allowance

    def advanced(self, run: RunId, now: float) -> None:
        """Note that Spark tasks of `run` have ended."""
        self._advanced[run] = now
        if run in self._permits:
            self._permits[run].advanced_at = now

    def advanced_at(self, run: RunId) -> float | None:
        """Return when a Spark task of `run` was last seen to end."""
        return self._advanced.get(run)

    def step_ended(self, run: RunId) -> None:
        """Note that the step of `run` has ended."""
        self._permits.pop(run, None)

    def cancelled(self, run: RunId, now: float) -> None:
        """Note that `run` was asked to stop. A second call does not extend its grace."""
        self._graces.setdefault(run, now + self._profile.cancel_grace.total_seconds())

    def run_ended(self, run: RunId) -> None:
        """Forget `run`, because it has ended."""
        self._permits.pop(run, None)
        self._graces.pop(run, None)
        self._advanced.pop(run, None)

    def asked_to_stop(self, now: float) -> None:
        """Note that the worker, which has no runs, was asked to end."""
        self._stops_until = now + self._profile.cancel_grace.total_seconds()

    def fault(self, now: float) -> KillReason | None:
        """Return why the worker must be killed now. None if there is no reason."""
        if self._last_proof is None:
            limit = self._profile.start_within.total_seconds()
            return (
                KillReason(reason=f"its session was not up within {limit:g} s") if now - self._started > limit else None
            )
        if (overdue := self.overdue(now)) is not None:
            return overdue
        limit = self._profile.hung_after.total_seconds()
        if now - self._last_proof > limit:
            return KillReason(reason=f"its JVM has not answered for {limit:g} s")
        if self._stops_until is not None and now > self._stops_until:
            return KillReason(reason="it was asked to stop and has not ended within its grace")
        return None

    def overdue(self, now: float) -> KillReason | None:
        """Return the runs that have outlived their permit, or else the grace in which they were to end. None if there
        are none.

        The worker ends itself a moment after a permit is over here. So this also explains why a worker is gone.
        """
        if expired := frozenset(run for run, allowed in self._permits.items() if now > allowed.ends_at):
            return KillReason(reason=f"the permit of {_named(expired)} has expired", culprits=expired)
        if slow := frozenset(run for run, at in self._graces.items() if now > at):
            return KillReason(reason=f"{_named(slow)} was cancelled and has not ended within its grace", culprits=slow)
        return None


class Wear:
    """What one worker has done so far, and whether a new one should replace it."""

    WARM_AFTER = 20
    """After so many runs a JVM has loaded and compiled what it needs. Its memory at that time is not a leak."""

    def __init__(self, profile: SparkProfile, *, started: float) -> None:
        self._profile = profile
        self._started = started
        self._rss_when_warm: int | None = None
        self._rss = 0
        self._idle_since: float | None = started
        self.runs = 0

    def run_taken(self) -> None:
        """Count a run."""
        self.runs += 1
        self._idle_since = None

    def left_alone(self, now: float) -> None:
        """Note that it has no run any more."""
        self._idle_since = now

    def rests(self, now: float) -> bool:
        """Whether it has had no run for so long that a worker that is not kept at rest is stopped."""
        return self._idle_since is not None and now - self._idle_since >= self._profile.idle_after.total_seconds()

    def weighed(self, rss_bytes: int) -> None:
        """Note the resident memory of its JVM."""
        self._rss = rss_bytes
        if self._rss_when_warm is None and self.runs >= self.WARM_AFTER:
            self._rss_when_warm = rss_bytes

    def reason(self, now: float) -> str | None:
        """Return why the worker should be replaced when it is idle. None if there is no reason."""
        if self.runs >= self._profile.recycle_after:
            return f"it has taken {self.runs} runs"
        if now - self._started > self._profile.recycle_age.total_seconds():
            return f"it is older than {format_duration(self._profile.recycle_age)}"
        grown = self._rss - (self._rss if self._rss_when_warm is None else self._rss_when_warm)
        if grown > self._profile.recycle_growth:
            return f"its memory has grown by {format_size(grown)} since its {self.WARM_AFTER}th run"
        return None


def _named(runs: Collection[RunId]) -> str:
    return f"run {' and run '.join(sorted(runs))}"


class RestartBackoff:
    """How long to wait before a worker is started again. If the last one has worked, there is no wait. Else the wait
    grows.
    """

    FIRST = timedelta(seconds=1)
    LONGEST = timedelta(minutes=1)

    def __init__(self) -> None:
        self._deaths = 0

    def worked(self) -> None:
        """Note that the worker has worked. Its next death counts as a first one."""
        self._deaths = 0

    def after_death(self) -> timedelta:
        """Count one death and return how long to wait."""
        self._deaths += 1
        if self._deaths == 1:
            return timedelta(0)
        doublings = min(self._deaths - 2, 10)
        return min(self.FIRST * (1 << doublings), self.LONGEST)


# The circuit breaker of one profile: after several workers in a row that could not work, runs are held back.
#
# A worker is up as soon as its session is. Whether its cluster gives it executors is known only when a run has waited
# for them in vain. Without the breaker each run of each table would wait for that, one after another.


class ProfileBreaker:
    """What is known of the workers of one profile.

    closed     runs start
    open       no run starts, until a pause is over
    half open  one run starts at a time: a success closes it, a failure opens it for twice as long
    """

    FIRST = timedelta(minutes=1)
    LONGEST = timedelta(minutes=30)

    def __init__(self, *, opens_after: int) -> None:
        """Open after so many failures in a row."""
        self._opens_after = opens_after
        self._failures = 0
        self._reason = ""
        self._until = 0.0

    def failed(self, reason: str, now: float) -> timedelta | None:
        """Note that a worker could not work. Return for how long no run starts now, or None if runs go on."""
        self._failures += 1
        self._reason = reason
        if self._failures < self._opens_after:
            return None
        pause = min(self.FIRST * (1 << min(self._failures - self._opens_after, 10)), self.LONGEST)
        self._until = now + pause.total_seconds()
        return pause

    def succeeded(self) -> bool:
        """Note that a run has succeeded. Return whether that closes the breaker."""
        closes = self._is_tripped
        self._failures = 0
        return closes

    def runs_at_once(self, now: float) -> int | None:
        """Return how many runs may be in the workers at a time. None if the breaker sets no limit."""
        if not self._is_tripped:
            return None
        return 0 if now < self._until else 1

    def holds(self, now: float) -> str | None:
        """Return why runs are held back, or None."""
        if not self._is_tripped:
            return None
        left = timedelta(seconds=round(self._until - now))
        when = f"in {format_duration(left)} one is tried" if left > timedelta(0) else "one is tried now"
        return f"{self._failures} workers in a row could not work ({self._reason}): no run starts, and {when}"

    @property
    def _is_tripped(self) -> bool:
        return self._failures >= self._opens_after


class WorkerNeed:
    """How many workers of one pool are needed. Some are kept at rest, and the others are started for runs that wait for
    a slot. `names` are those of all that it may have.
    """

    def __init__(self, profile: SparkProfile, names: Sequence[str]) -> None:
        self._slots = profile.slots
        self._kept = frozenset(names[: profile.kept_at_rest])
        self._others = len(names) - len(self._kept)
        self._waiting = 0
        self._starting: set[str] = set()
        """Those that are not kept at rest, from their start until they are ready or gone."""

    @property
    def is_over(self) -> bool:
        """Whether no run waits for a slot."""
        return self._waiting == 0

    def runs_wait(self, runs: int) -> None:
        """Note how many runs wait for a slot."""
        self._waiting = runs

    def is_kept(self, name: str) -> bool:
        """Whether a worker is kept also when there is nothing to do."""
        return name in self._kept

    def begin(self, name: str, *, starting: int) -> bool:
        """Return whether a worker starts now, and note it. `starting` are the workers that are kept at rest, and are
        being started.
        """
        if self.is_kept(name):
            return True
        begins = -(-self._waiting // self._slots) > len(self._starting) + starting
        if begins:
            self._starting.add(name)
        return begins

    def ready(self, name: str) -> None:
        """Note that a worker is ready. Its slots are for runs that wait, until it is said anew how many still do."""
        self._starting.discard(name)
        self._waiting = max(0, self._waiting - self._slots)

    def gone(self, name: str) -> None:
        """Note that a worker has ended."""
        self._starting.discard(name)

    def resting_slots(self, *, others_alive: int) -> int:
        """Return the slots of workers that are not started because no run waits for them. `others_alive` are those that
        are not kept at rest, and live.
        """
        return (self._others - others_alive) * self._slots if self.is_over else 0
