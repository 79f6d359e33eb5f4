"""How a rewrite of ours reaches the metadata table, which live writers write at the same time.

From 1.1 on, on table version 8 and above, a client streams: it begins its instant in the metadata table while it still
writes data, long before its commit takes the table's lock. Older clients begin it within their commit, and first roll
back all that is in flight there. Beside both we must do neither. So nothing of ours is in flight there outside of the
table's lock, else an older client rolls it back; and nothing of others is rolled back, else a live write fails at its
commit. Hudi has one switch for both, which is thus off for what executes a rewrite, and on for what writes the metadata
table (bytecode of 1.2.0, and run; docs/hudi.md).
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

    Nothing may be rolled back within: that would write the metadata table, and roll back what others have there.
    """
    part = settings.getMetadataConfig()  # a copy, and what Hudi asks
    part.setValue(STREAMING, "false")
    try:
        yield
    finally:
        part.setValue(STREAMING, "true")


def settings_of_a_commit(hudi: Any, settings: Any) -> Any:
    """Return a copy of a client's settings by which the metadata table is written and nothing in it is rolled back."""
    return hudi.config.HoodieWriteConfig.newBuilder().withProps(settings.getProps()).build()
