"""A mix of services over twenty tables: in the warm pool, and with one Spark application per table and service."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cores import core_seconds, family
from bench.figure import Figure, figure
from bench.hands import assignment_of, hands
from bench.one_session import run_alone
from bench.small_tables import SmallTables, small_tables
from lakewarden.demo.formats.hudi.options import Workload
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import Service

_TABLES = 20
_WARMING_UP = 3
_SAMPLE = 3

_MIX: Mapping[Service, Mapping[str, Any]] = {
    Service.COMPACTION: {},
    Service.CLUSTERING: {"untouched_for": "0s"},
    Service.CLEAN: {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1},
}


def measure() -> list[Figure]:
    """Let each table have its services one after another: wall time, and time on cores of every process involved.

    The pool is warm and has as many tables at once as it has slots. Applications run one after another, as those of
    one cron job do; to bound the time they serve three tables only, and their figures are scaled up to twenty.
    """
    with small_tables(Workload.DAYS) as tables:
        ours = _through_the_pool(tables)
        sampled = _with_an_application_each(tables)
    scaled = [figure * _TABLES / _SAMPLE for figure in sampled]
    work = f"{_TABLES} tables, {len(_MIX)} services (apps: scaled from {_SAMPLE})"
    return [
        figure(name, mine, f"{unit}: {work}", judged="ratio", goal=(">=", 5), baseline=apps, ratio=apps / mine)
        for name, unit, mine, apps in zip(("mix_wall", "mix_cores"), ("s", "core-s"), ours, scaled, strict=True)
    ]


def _chains(tables: SmallTables, name: str, count: int) -> Sequence[Sequence[Assignment]]:
    paths: list[Path] = [tables.copy(f"{name}-{number:02}") for number in range(count)]
    return [[assignment_of(tables, path, service, **options) for service, options in _MIX.items()] for path in paths]


def _through_the_pool(tables: SmallTables) -> tuple[float, float]:
    profile = SparkProfile()
    with hands(tables.folder / "pool", profile) as pool:
        pool.carry_out(_chains(tables, "warm-up", _WARMING_UP), at_once=profile.slots)
        chains = _chains(tables, "pooled", _TABLES)
        before = core_seconds(family(os.getpid()))
        seconds = pool.carry_out(chains, at_once=profile.slots)
        return seconds, core_seconds(family(os.getpid())) - before


def _with_an_application_each(tables: SmallTables) -> tuple[float, float]:
    chains = _chains(tables, "alone", _SAMPLE)
    begun = time.monotonic()
    cores = sum(run_alone(run, log=tables.folder / "alone.log") for chain in chains for run in chain)
    return time.monotonic() - begun, cores
