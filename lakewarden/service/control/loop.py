"""The control thread of the daemon: it takes a table from dirty to a settled run.

poll queue -> observe -> decide and request -> dispatch -> pool -> permits -> settle -> the table is dirty again.

Every turn does all that is due, and returns how long the thread may wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.command_queue import Command, CommandQueue, Message
from lakewarden.service.control.commands import Commands
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.membership import Membership
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.replica_lease import ReplicaLeaseKeeper
from lakewarden.service.rules.shutdown import Shutdown, ShutdownPhase
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.daemon_state import DaemonState, Resources

log = structlog.get_logger(__name__)

REVIEW_SECONDS = 0.02
"""How often an open request for a permit is judged. The moments between the commits of a writer are short."""

STORE_REST_SECONDS = 0.5
"""How long the daemon waits after the store has failed, whatever is due."""

UNKNOWN_SECONDS = 1.0
"""How often the daemon tries again to settle runs with an unknown ending."""

LONGEST_SLEEP_SECONDS = 1.0
"""The control thread shows at least this often that it is alive."""

LONGEST_SLEEP_WHILE_ENDING_SECONDS = 0.1

_LAST_TURNS = 30
"""For how many turns the daemon waits, at its end, for the tables of ended runs. The next owner settles the rest."""

COALESCE_SECONDS = 0.005
"""Appointments within this time are kept in one turn. So thousands of tables do not mean thousands of wake-ups."""


class ControlLoop:
    """The control thread. `turn` does all that is due, and `run` repeats it until `stop`."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        ownership: Ownership,
        scheduling: SchedulingParts,
        membership: Membership,
        discovery: Discovery,
        commands: Commands,
        queue: CommandQueue,
        shutdown: Shutdown,
    ) -> None:
        self._tables = state.tables
        self._replica_lease = ownership.replica_lease
        self._membership = membership
        self._discovery = discovery
        self._shares = ownership.shares
        self._poller = scheduling.poller
        self._active_runs = state.active_runs
        self._permit_queue = scheduling.permit_queue
        self._runs = scheduling.runs
        self._permit_contexts = scheduling.permit_contexts
        self._barriers = state.barriers
        self._commands = commands
        self._pools = resources.pools
        self._queue = queue
        self._clock = resources.clock
        self._shutdown = shutdown
        self.phase = ShutdownPhase.SERVING
        self._postponed: list[Message] = []
        self._store_is_away = False
        self._unknown_at = 0.0
        self.last_turn = resources.clock.monotonic()

    # -- start and end

    def start(self) -> None:
        """Join the other replicas, take over the runs on the tables of this one, and start the pools.

        Raises TemporaryError if the store does not answer.
        """
        self._membership.start()
        for pool in self._pools.values():
            pool.start(self._queue.put)

    def run(self) -> None:
        """Repeat `turn` until the shutdown is over. Returns after every worker is gone."""
        with ReplicaLeaseKeeper(self._replica_lease):
            try:
                while self.phase is not ShutdownPhase.OVER:
                    self._queue.wait(self.turn())
            finally:
                for pool in self._pools.values():
                    pool.close()
            self._part()

    def stop(self) -> None:
        """Ask `run` to end. It is safe in the thread of a signal handler. A second call ends it at once."""
        self._shutdown.ask()
        self._queue.wake()

    def _part(self) -> None:
        """Settle the last answers of the closed pools, and leave the store. If it does not answer, other replicas
        settle.
        """
        self.turn()
        for _ in range(_LAST_TURNS):
            if not self._runs.settler.is_waiting():
                break
            self._queue.wait(LONGEST_SLEEP_WHILE_ENDING_SECONDS)
            self.turn()
        self._barriers.refuse_all("the daemon is stopping")
        try:
            self._replica_lease.end()
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))

    # -- one turn

    def turn(self) -> float:
        """Do everything that is due, and return the seconds until the next turn."""
        self.last_turn = now = self._clock.monotonic()
        if self.phase is ShutdownPhase.SERVING:
            self._discovery.keep_up(now)
        self._membership.keep_up(now)
        messages, dirty = self._queue.take()
        self._store_is_away = False
        self._handle_all([*self._postponed, *messages])
        self._poll_or_notify(dirty)
        self._go_on_ending()
        if self._may_act():  # without the store no decision could be kept
            self._poller.poll_due(self._clock.monotonic())
        self._carry_on(now)
        return self._until_next()

    def _poll_or_notify(self, dirty: Mapping[TableId, bool]) -> None:
        ours = {table for table in dirty if self._shares.owns(table)}
        for table in ours:
            if dirty[table]:
                self._poller.hook_arrived(table)
            else:
                self._poller.poll_soon(table, anew=True)
        self._membership.notify_owners(dirty.keys() - ours)

    def _carry_on(self, now: float) -> None:
        try:
            if now >= self._unknown_at:
                self._unknown_at = now + UNKNOWN_SECONDS
                self._runs.settler.settle_unknown()
            self._runs.settler.settle()
            self._commands.answer_waiting()
            self._barriers.answer_waiting()
            self._permit_queue.review()
            if self._replica_lease.holds():
                self._runs.dispatch()
        except TemporaryError as error:
            self._postpone(error)

    def _postpone(self, error: TemporaryError) -> None:
        log.warning("store_unavailable", error=str(error))
        self._store_is_away = True

    def _until_next(self) -> float:
        if self._store_is_away or not self._may_act():
            return STORE_REST_SECONDS  # what is due stays due, and nothing is done for it
        if self._permit_queue.waiting() or self._barriers.is_asked():
            return REVIEW_SECONDS
        longest = LONGEST_SLEEP_WHILE_ENDING_SECONDS if self._shutdown.is_asked() else LONGEST_SLEEP_SECONDS
        next_at = self._poller.next_at()
        if next_at is None:
            return longest
        return min(max(next_at - self._clock.monotonic(), COALESCE_SECONDS), longest)

    def _may_act(self) -> bool:
        return self._membership.store_error is None and self._replica_lease.holds()

    # -- shutdown

    def _go_on_ending(self) -> None:
        before = self.phase
        if before is ShutdownPhase.OVER:
            return
        self.phase = self._shutdown.phase(busy=bool(self._active_runs.under_way()))
        if self.phase is before:
            return
        log.info("stopping", phase=self.phase, runs=len(self._active_runs.under_way()))
        if before is ShutdownPhase.SERVING:
            self._runs.drain()
            self._permit_contexts.drain()
            self._membership.drain()
        if self.phase is not ShutdownPhase.DRAINING:
            self._permit_contexts.cut_off()
        if self.phase is ShutdownPhase.STEPPING_BACK:
            for run in self._active_runs.under_way():
                profile = self._active_runs.profile_of(run)
                if profile is not None:
                    self._pools[profile].cancel(run.id, "the drain deadline has passed")

    # -- messages

    def _handle_all(self, messages: list[Message]) -> None:
        """Handle messages in order. If the store fails at one, keep that one and the rest for the next turn."""
        self._postponed = []
        for number, message in enumerate(messages):
            try:
                self._handle(message)
            except TemporaryError as error:
                self._postpone(error)
                self._postponed = messages[number:]
                return

    def _handle(self, message: Message) -> None:
        if isinstance(message, Command):
            for table in self._commands.carry_out(message):
                self._poller.decide_soon(table)
        else:
            self._runs.heard(message)
