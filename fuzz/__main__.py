"""`./dev fuzz [READER ...] [--seconds N] [--seed S]`: damaged and crafted files for every reader of table metadata.

`./dev fuzz api` sends requests that are made from the OpenAPI of both ports to a started daemon. `./dev fuzz rows` has
options of its own (`rows/command.py`).
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from hashlib import blake2b
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.api import NAME as API
from fuzz.api import fuzz_api
from fuzz.child import child
from fuzz.readers import NAMES
from fuzz.trial import Finding, Tally

_SILENT = 30.0
"""If a child begins no input for so many seconds, it hangs where no signal reaches it."""

_KEPT = Path(".dev/fuzz")


def main() -> int:
    """Fuzz the named readers, by default all. Returns 1 if anything was found."""
    if sys.argv[1:2] == ["rows"]:
        from fuzz.rows.command import main as rows  # noqa: PLC0415 - imports pyspark

        return rows(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"what to fuzz: {', '.join(NAMES)}, or {API}")
    parser.add_argument("--seconds", type=float, default=60, help="for how long each reader (default: 60)")
    parser.add_argument("--seed", type=int, help="the seed of the inputs (default: any; it is printed)")
    asked = parser.parse_args()
    if unknown := set(asked.readers) - {*NAMES, API}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there is {', '.join((*NAMES, API))}")
    seed = random.randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    if API in asked.readers:
        with tempfile.TemporaryDirectory(prefix="lakewarden-fuzz-") as folder:
            return 1 if fuzz_api(Path(folder), seconds=asked.seconds, seed=seed) else 0
    found = [_fuzzed(name, seconds=asked.seconds, seed=seed) for name in asked.readers or NAMES]
    return 1 if any(found) else 0


def _fuzzed(name: str, *, seconds: float, seed: int) -> bool:
    """Let a child try inputs for a reader, and print what it found. Returns whether it found anything."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-fuzz-") as folder:
        last = Path(folder) / "input"
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(name, seconds, seed, Path(folder), theirs))
        process.start()
        theirs.close()
        tally = _awaited(ours, last, seconds)
        if tally is None:
            process.kill()
        process.join()
        if tally is None:
            what = f"the child ended ({process.exitcode}), or was silent for {_SILENT:g} s"
            tally = Tally(
                at_first=0, findings=[Finding(what=what, content=last.read_bytes() if last.exists() else b"")]
            )
    print(
        f"{name:<24} {tally.inputs:>8} inputs  {len(tally.corpus):>5} ways  slowest {tally.slowest * 1000:6.0f} ms  "
        f"{'FOUND' if tally.findings else 'nothing found'}",
        flush=True,
    )
    for finding in tally.findings:
        _KEPT.mkdir(parents=True, exist_ok=True)
        kept = _KEPT / f"{name}-{blake2b(finding.content, digest_size=6).hexdigest()}"
        kept.write_bytes(finding.content)
        print(f"{kept}: {finding.what}", flush=True)
    return bool(tally.findings)


def _awaited(ours: Connection, last: Path, seconds: float) -> Tally | None:
    """Return the child's tally. None if the child has died or hangs."""
    deadline = time.monotonic() + seconds + 3 * _SILENT
    while time.monotonic() < deadline:
        try:
            if ours.poll(1.0):
                found: Tally = ours.recv()
                return found
        except EOFError:
            return None
        if last.exists() and time.time() - last.stat().st_mtime > _SILENT:
            return None
    return None


if __name__ == "__main__":
    sys.exit(main())
