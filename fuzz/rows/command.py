"""`./dev fuzz rows [--format F] [--seconds N] [--seed S] [--acts N] [--program FILE]`."""

from __future__ import annotations

import argparse
import importlib
import itertools
import logging
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import structlog

from fuzz.rows.contract import RowsFormat
from fuzz.rows.program import Act, Program, shrunk
from fuzz.rows.running import Fault, Tally, run_program
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import java
from lakewarden.executors.worker.session import Session
from lakewarden.planners.registry import FORMATS as REGISTERED

NAME = "rows"
FORMATS = tuple(REGISTERED)
_KEPT = Path(".dev/fuzz/rows")
_MANY = 50
"""After so many programs, a service that never succeeded fails the command."""


def rows_format(name: str) -> RowsFormat:
    """Return what a format contributes."""
    found: RowsFormat = importlib.import_module(f"fuzz.rows.{name}").ROWS
    return found


def made(seed: int, format_: RowsFormat) -> Program:
    """Return the program of a seed."""
    kind, acts = format_.draw(random.Random(seed))
    return Program(format=format_.name, kind=kind, acts=tuple(acts), seed=seed)


def spark_session(*formats: RowsFormat) -> Session:
    """Start the one session of all programs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    conf = {
        "spark.driver.extraJavaOptions": f"{java.LIGHT} -Xmn600m",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="lakewarden-warehouse-"),
    }
    for one in formats:
        conf |= one.spark
    names = tuple(one.name for one in formats)
    session = Session(SparkProfile(memory="2g", master="local[2]", formats=names, conf=conf))
    session._root.sparkContext.setLogLevel("OFF")  # noqa: SLF001
    return session


def main(arguments: Sequence[str]) -> int:
    """Run programs, and shrink those that show a fault. Returns 1 if there was one."""
    parser = argparse.ArgumentParser(prog="fuzz rows", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, help="the format of the tables (default: each in turn)")
    parser.add_argument("--seconds", type=float, default=300, help="for how long each format (default: 300)")
    parser.add_argument("--seed", type=int, help="the first seed; the next ones follow it (default: any)")
    parser.add_argument("--programs", type=int, help="end after so many programs")
    parser.add_argument("--acts", type=int, help="cut each program after so many acts (default: as drawn, about forty)")
    parser.add_argument("--program", type=Path, help="replay the kept program of this file, and nothing else")
    parser.add_argument("--print", action="store_true", help="print the program of the seed, and run none")
    parser.add_argument("--keep-on", action="store_true", help="do not shrink what is found")
    asked = parser.parse_args(arguments)
    if asked.program is not None:
        program = Program.from_json(asked.program.read_text(encoding="utf-8"))
        return _fuzzed(rows_format(program.format), iter([program]), seconds=inf, shrink=False)
    seed = random.randrange(10**6) if asked.seed is None else asked.seed
    found = 0
    for name in [asked.format] if asked.format else FORMATS:
        format_ = rows_format(name)
        if asked.print:
            print(made(seed, format_).to_json())
            continue
        drawn = (made(one, format_) for one in itertools.islice(itertools.count(seed), asked.programs))
        programs = (one.of(one.acts[: asked.acts]) for one in drawn)
        found |= _fuzzed(format_, programs, seconds=asked.seconds, shrink=not asked.keep_on)
    return found


def _fuzzed(format_: RowsFormat, programs: Iterator[Program], *, seconds: float, shrink: bool) -> int:
    session, tally, faults = spark_session(format_), Tally(), list[str]()
    ends = time.monotonic() + seconds
    for program in programs:
        began = time.monotonic()
        fault = tried(program, format_, session, tally, until=ends)
        print(f"seed {program.seed}: {len(program.acts)} acts, {time.monotonic() - began:.0f} s", flush=True)
        if fault is not None:
            print(f"FOUND seed {program.seed} after {fault.acts} acts: {fault.kind}: {fault.what}", flush=True)
            small = program.of(program.acts[: fault.acts])
            if shrink:
                small = _shrunk(small, fault, format_, session)
            _KEPT.mkdir(parents=True, exist_ok=True)
            kept = _KEPT / f"{format_.name}-{program.seed}.json"
            kept.write_text(small.to_json() + "\n", encoding="utf-8")
            print(f"{kept}: {small.to_json()}", flush=True)
            faults.append(f"seed {program.seed}: {fault.kind}")
        if time.monotonic() > ends:
            break
    session.stop()
    print(tally.told())
    never = tally.never_succeeded(format_.services) if tally.programs >= _MANY else []
    if never:
        print(f"never succeeded: {', '.join(never)}")
    print("\n".join(faults) or "nothing found")
    return 1 if faults or never else 0


def tried(program: Program, format_: RowsFormat, session: Session, tally: Tally, *, until: float = inf) -> Fault | None:
    """Run a program on a new table."""
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-rows-"))
    try:
        return run_program(program, format_, folder, session, tally, until=until)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _shrunk(program: Program, fault: Fault, format_: RowsFormat, session: Session) -> Program:
    def fails(acts: Sequence[Act]) -> bool:
        same = fault.is_like(tried(program.of(acts), format_, session, Tally()))
        if same:
            print(f"  the same with {len(acts)} acts", flush=True)
        return same

    return program.of(shrunk(program.acts, fails))
