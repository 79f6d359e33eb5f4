"""The log of a run as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from lakewarden.executors.pool.run_logs import LogLine


def written_out(lines: Sequence[LogLine], *, after: int = 0) -> Iterator[str]:
    """Yield lines as text."""
    last = after
    for line in lines:
        if line.number > last + 1:
            yield f"... {line.number - last - 1} lines were deleted, because the log was too long ..."
        last = line.number
        head = " ".join(part for part in (line.at, (line.level or "").upper(), line.source, line.logger) if part)
        facts = " ".join(f"{name}={json.dumps(value)}" for name, value in line.fields.items())
        yield f"{head}: {line.message}" + (f" {facts}" if facts else "")
