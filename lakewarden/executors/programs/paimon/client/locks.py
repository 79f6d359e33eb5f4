"""The lock of a table's catalog. The JVM of the worker holds it while Python looks for the last time and commits.

Paimon runs a `Callable` under the lock (`CatalogLock.runWithLock`). This one consists of two handles to methods of the
JDK, without a class of our own: the first tells that the lock is held, and the second waits for the release.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from lakewarden.executors.programs.paimon.client.opened import on_the_way_out, translated
from lakewarden.planners.model.errors import TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step

_SURE_SECONDS = 20.0
"""How long the lock certainly lasts. A database takes it away from a dead program after 60 s (`core_options`)."""

_LONGEST_SECONDS = 90
"""The lock is released after this time in any case, the wait for it included."""

_LOOK_SECONDS = 0.005
_RELEASED = "released"

RequireHeld = Callable[[], None]
"""Raises YieldError if it is not certain any more that the lock is held."""


@contextlib.contextmanager
def held(session: Any, java: Any) -> Iterator[RequireHeld]:
    """Hold the lock of the catalog through which the table `java` was opened. Without such a lock do nothing.

    Raises TemporaryError if the lock cannot be had. A failure of the release is logged.
    """
    environment = java.catalogEnvironment()
    factory = environment.lockFactory()
    if factory is None:
        yield lambda: None
        return
    jvm = session.sparkContext._jvm  # noqa: SLF001 - pyspark's own access to py4j
    with translated(Step.PLAN):
        lock = jvm.org.apache.paimon.operation.Lock.fromCatalog(
            factory.createLock(environment.lockContext()), environment.identifier()
        )
    holding = _Holding(jvm, lock)
    try:
        yield holding.acquired()
    finally:
        holding.release()


class _Holding:
    """A thread that holds the lock."""

    def __init__(self, jvm: Any, lock: Any) -> None:
        self._lock = lock
        self._held = jvm.java.util.concurrent.CountDownLatch(1)
        self._released = jvm.java.util.concurrent.CompletableFuture()
        self._released.completeOnTimeout("late", _LONGEST_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
        self._call = _told_and_waiting(jvm, self._held, self._released)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="catalog-lock", daemon=True)

    def acquired(self) -> RequireHeld:
        """Return when the lock is held. Raises TemporaryError if it cannot be had."""
        self._thread.start()
        until = time.monotonic() + _LONGEST_SECONDS
        since = time.monotonic()
        while self._held.getCount() > 0:
            since = time.monotonic()
            if not self._thread.is_alive() or since > until:
                self._raise()
            self._thread.join(_LOOK_SECONDS)

        def require_held() -> None:
            if time.monotonic() - since > _SURE_SECONDS or not self._thread.is_alive():
                raise YieldError(
                    "the lock of the catalog was held for so long that it may be lost: nothing is committed"
                )

        return require_held

    def release(self) -> None:
        """End the thread. Its failure is logged: the lock ends by itself."""
        with on_the_way_out("release the lock of the catalog"):
            self._released.complete(_RELEASED)
            self._thread.join(_LONGEST_SECONDS)
            if isinstance(self._error, Exception):
                raise self._error

    def _run(self) -> None:
        try:
            self._lock.runWithLock(self._call)
            self._lock.close()
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits for it
            self._error = error

    def _raise(self) -> None:
        """Raise why there is no lock. Nothing was committed."""
        error, self._error = self._error, None
        if error is None:
            raise TemporaryError("the lock of the catalog is held by another program")
        try:
            with translated(Step.PLAN):
                raise error
        except UnknownError as gone:
            raise TemporaryError(str(gone)) from gone


def _told_and_waiting(jvm: Any, held: Any, released: Any) -> Any:
    """Return a `Callable` that counts `held` down, and then waits for `released`."""
    handles, method = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.invoke.MethodType.methodType
    lookup = handles.publicLookup()
    named = jvm.java.lang.Class.forName
    tell = lookup.bind(held, "countDown", method(jvm.java.lang.Void.TYPE))
    wait = lookup.bind(released, "join", method(named("java.lang.Object")))
    both = handles.foldArguments(wait, tell)
    kind = named("java.util.concurrent.Callable")
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(kind, both)
