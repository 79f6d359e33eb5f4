"""A mix of services over twenty tables: in the warm pool, and with one Spark application per table and service."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure, figure
from bench.measuring.cores import core_seconds, family
from bench.runs.granting_pool import assignment_of, granting_pool
from bench.runs.one_session import run_alone
from bench.runs.small_tables import SmallTables, small_tables
from lakewarden.demo.formats.hudi.options import Workload
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import Service

_TABLES, _WARMING_UP, _SAMPLE = 20, 3, 3
_BRIEF = (1, 1, 1)
_BRIEF_SERVICES = 1
"""The number of tables for the applications. Each application is a JVM."""

_MIX: Mapping[Service, Mapping[str, Any]] = {
    Service.COMPACTION: {},
    Service.CLUSTERING: {"untouched_for": "0s"},
    Service.CLEAN: {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1},
}


def measure(*, brief: bool = False) -> list[Figure]:
    """Run the services of each table one after another. Measured are the wall time, and the time on cores of every
    process involved.

    The pool is warm and services as many tables at once as it has slots. The applications run one after another, as
    those of one cron job do. To bound the time they service only three tables, and their figures are scaled up to
    twenty.
    """
    count, warming_up, sample = _BRIEF if brief else (_TABLES, _WARMING_UP, _SAMPLE)
    with small_tables(Workload.DAYS) as tables:
        ours = _through_the_pool(tables, count, warming_up)
        services = _BRIEF_SERVICES if brief else len(_MIX)
        sampled = _with_an_application_each(tables, sample, services)
    scaled = [figure * count / sample * len(_MIX) / services for figure in sampled]
    work = f"{count} tables, {len(_MIX)} services (apps: scaled from {sample})"
    return [
        figure(name, mine, f"{unit}: {work}", judged="ratio", goal=(">=", 5), baseline=apps, ratio=apps / mine)
        for name, unit, mine, apps in zip(("mix_wall", "mix_cores"), ("s", "core-s"), ours, scaled, strict=True)
    ]


def _chains(tables: SmallTables, name: str, count: int) -> Sequence[Sequence[Assignment]]:
    paths: list[Path] = [tables.copy(f"{name}-{number:02}") for number in range(count)]
    return [[assignment_of(tables, path, service, **options) for service, options in _MIX.items()] for path in paths]


def _through_the_pool(tables: SmallTables, count: int, warming_up: int) -> tuple[float, float]:
    profile = SparkProfile()
    with granting_pool(tables.folder / "pool", profile) as pool:
        pool.carry_out(_chains(tables, "warm-up", warming_up), at_once=profile.slots)
        chains = _chains(tables, "pooled", count)
        before = core_seconds(family(os.getpid()))
        seconds = pool.carry_out(chains, at_once=profile.slots)
        return seconds, core_seconds(family(os.getpid())) - before


def _with_an_application_each(tables: SmallTables, sample: int, services: int) -> tuple[float, float]:
    chains = _chains(tables, "alone", sample)
    begun = time.monotonic()
    cores = sum(run_alone(run, log=tables.folder / "alone.log") for chain in chains for run in chain[:services])
    return time.monotonic() - begun, cores
