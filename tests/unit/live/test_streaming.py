"""What a streaming query remembers can be taken from it, as a crash at the wrong moment does."""

from __future__ import annotations

from pathlib import Path

from live.streaming import forget_last_micro_batch


def test_the_newest_micro_batch_is_forgotten_with_its_checksum(tmp_path: Path) -> None:
    """By number, not by name: 10 is newer than 9."""
    log = tmp_path / "checkpoint" / "commits"
    log.mkdir(parents=True)
    for number in (8, 9, 10):
        (log / str(number)).touch()
        (log / f".{number}.crc").touch()

    forget_last_micro_batch(tmp_path)

    assert sorted(path.name for path in log.iterdir()) == [".8.crc", ".9.crc", "8", "9"]
