"""What a streaming query records, in its checkpoint and in the table's commits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from live.hudi.travel import commits


def forget_last_micro_batch(streaming: Path) -> int | None:
    """Remove the newest micro-batch from the checkpoint's commit log. The query then looks as if it had died between
    its commit to the table and the one to its checkpoint, and sends that micro-batch again. Returns its number, None if
    there is none.
    """
    log = _log(streaming)
    newest = max((int(path.name) for path in log.iterdir() if path.name.isdigit()), default=None)
    if newest is not None:
        (log / str(newest)).unlink()
        (log / f".{newest}.crc").unlink(missing_ok=True)
    return newest


def was_sent_again(streaming: Path, micro_batch: int | None) -> bool:
    """Whether a forgotten micro-batch is in the checkpoint's commit log again."""
    return micro_batch is not None and (_log(streaming) / str(micro_batch)).exists()


def doubled_micro_batches(table: Path) -> set[int]:
    """Return the micro-batches that more than one write of the active timeline names."""
    written = Counter(commit.micro_batch for commit in commits(table) if commit.writes)
    return {number for number, times in written.items() if number is not None and times > 1}


def _log(streaming: Path) -> Path:
    return streaming / "checkpoint" / "commits"
