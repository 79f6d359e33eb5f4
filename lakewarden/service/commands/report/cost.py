"""What a run costs. These are two figures, and an estimate is no more exact than they are."""

from __future__ import annotations

from lakewarden.planners.surveying.contents import Amount

RUN_CORE_SECONDS = 5.0
"""What a run costs beside its bytes. `pool` in docs/benchmarks.md: ten small tables were compacted in 24.6 s on two
cores, which is 4.9 core-seconds for each."""

BYTES_A_CORE_SECOND = 20 * 2**20
"""How many bytes a core rewrites in a second. It is assumed and not measured: it depends on columns and codecs."""

DELETIONS_A_CORE_SECOND = 1000
"""How many files a core deletes in a second. It is assumed and not measured."""


def core_seconds(reads: Amount, deletes: Amount) -> float:
    """Return the estimate for one run that reads and deletes so much. Nothing costs nothing."""
    if not reads.files and not deletes.files:
        return 0.0
    work = reads.bytes / BYTES_A_CORE_SECOND + deletes.files / DELETIONS_A_CORE_SECOND
    return round(RUN_CORE_SECONDS + work, 1)
