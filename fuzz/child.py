"""The process that reads the inputs. Its limits keep an error there from affecting anything else."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.readers import readers
from fuzz.trial import tried

_SPACE = 3 * 2**30


def child(name: str, seconds: float, seed: int, folder: Path, result: Connection) -> None:
    """Try inputs for so many seconds and send the tally. Each input is written to `folder` before it is read."""
    resource.setrlimit(resource.RLIMIT_AS, (_SPACE, _SPACE))
    end = time.monotonic() + seconds
    with (folder / "input").open("wb", buffering=0) as last:
        tally = tried(
            readers(folder)[name],
            random.Random(seed),
            go_on=lambda _: time.monotonic() < end,
            begun=_told(last.write, last.seek, last.truncate),
        )
    result.send(tally)


def _told(
    write: Callable[[bytes], object], seek: Callable[[int], object], truncate: Callable[[], object]
) -> Callable[[bytes], None]:
    """Return the function that writes an input to a file, so that it outlives the process that reads it."""

    def told(content: bytes) -> None:
        seek(0)
        write(content)
        truncate()

    return told
