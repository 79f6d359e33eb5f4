"""How a rewrite of ours reaches the metadata table, which live writers write at the same time.

From 1.1 on, on table version 8 and above, a client streams: it begins its instant in the metadata table while it still
writes data, long before its commit takes the table's lock. Older clients begin it within their commit, and first roll
back everything in flight there. Beside both we must do neither. Our instants must not be in flight there outside of the
table's lock, or an older client rolls them back. We must roll back nothing of others, or a live write fails at its
commit. Hudi has one switch for both. So it is off for the execution of a rewrite, and on for writing the metadata table
(bytecode of 1.2.0, and run; docs/hudi.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

STREAMING = "hoodie.metadata.streaming.write.enabled"
"""With it, a client's metadata table is written in a mode that rolls nothing back (`createMetadataWriteConfig`)."""


@contextlib.contextmanager
def left_for_the_commit(settings: Any) -> Iterator[None]:
    """Let a client with these settings write nothing to the metadata table while it executes a rewrite.

    No rollback may happen within: it would write the metadata table, and roll back what others have there.
    """
    part = settings.getMetadataConfig()  # a copy, which Hudi reads
    part.setValue(STREAMING, "false")
    try:
        yield
    finally:
        part.setValue(STREAMING, "true")


def settings_of_a_commit(hudi: Any, settings: Any) -> Any:
    """Return a copy of a client's settings that writes the metadata table and rolls nothing back in it."""
    return hudi.config.HoodieWriteConfig.newBuilder().withProps(settings.getProps()).build()
