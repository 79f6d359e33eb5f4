"""A table's indexes, followed while a joined step runs: its commit comes long after it was begun."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from lakewarden.executors.programs.hudi.errors import on_the_way_out
from lakewarden.executors.programs.hudi.opened import OpenTable
from lakewarden.planners.model.errors import LakewardenError

_EVERY_SECONDS = 1.0


@contextlib.contextmanager
def indexes_followed(table: OpenTable) -> Iterator[None]:
    """Let Hudi know of the indexes that the table gets, or loses, until the bracket ends.

    A writer makes a metadata table under the table's lock, and our commit waits for that lock: it reads the switches
    when it has it. What cannot be kept up is not told: nobody stops a joined step.
    """
    ended = threading.Event()
    follower = threading.Thread(target=_follow, args=(table, ended), name="indexes", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()


def _follow(table: OpenTable, ended: threading.Event) -> None:
    with on_the_way_out("follow the table's indexes"):
        while not ended.wait(_EVERY_SECONDS):
            with contextlib.suppress(LakewardenError):
                table.keep_up_indexes()
