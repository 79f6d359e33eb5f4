"""How many session workers are needed. Some are kept at rest, and the others are started for runs that wait for a slot.

These are only rules, as in `supervision`. The pool calls them under its lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.executors.profile import SparkProfile


class WorkerNeed:
    """What is known of the need for the workers of one pool. `names` are those of all that it may have."""

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
