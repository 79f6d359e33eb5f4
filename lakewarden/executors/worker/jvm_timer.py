"""A timer in the JVM. It halts the JVM at a moment, even while the Python process beside it is frozen."""

from __future__ import annotations

from typing import Any

from lakewarden.planners.model.clock import Clock

_EXIT_STATUS = 75  # EX_TEMPFAIL of sysexits.h: it is not an error of the JVM


class JvmTimer:
    """A thread of the JVM that halts it, without any cleanup, at the moment that was set last.

    It uses only classes of the JDK, by reflection. Lakewarden has no class of its own in the JVM.
    """

    def __init__(self, gateway: Any, clock: Clock) -> None:
        self._clock = clock
        java = gateway.jvm.java
        self._milliseconds = java.util.concurrent.TimeUnit.MILLISECONDS
        self._executor = java.util.concurrent.ScheduledThreadPoolExecutor(1)
        self._executor.setRemoveOnCancelPolicy(True)
        self._halt = _runnable_that_halts(gateway)
        self._until: float | None = None
        self._set: Any = None

    def set(self, until: float) -> None:
        """Let the JVM halt at `until`, in seconds of the machine's monotonic clock, and not before.

        It waits for the JVM. If there is none, it raises py4j's error.
        """
        if until == self._until:
            return
        remaining = max(until - self._clock.monotonic(), 0)
        earlier, self._set = self._set, self._executor.schedule(self._halt, int(remaining * 1000), self._milliseconds)
        self._until = until
        if earlier is not None:  # only now: one of the two timers is always set, even if this process freezes
            earlier.cancel(False)  # noqa: FBT003 - of java.util.concurrent.Future


def _runnable_that_halts(gateway: Any) -> Any:
    """Return `() -> Runtime.getRuntime().halt(75)`."""
    java = gateway.jvm.java
    handles = java.lang.invoke.MethodHandles
    takes_status = java.lang.invoke.MethodType.methodType(java.lang.Void.TYPE, java.lang.Integer.TYPE)
    status = gateway.new_array(java.lang.Object, 1)
    status[0] = _EXIT_STATUS
    halt = handles.publicLookup().bind(java.lang.Runtime.getRuntime(), "halt", takes_status)
    runnable = java.lang.Class.forName("java.lang.Runnable")
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(runnable, handles.insertArguments(halt, 0, status))
