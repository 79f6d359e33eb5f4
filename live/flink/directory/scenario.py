"""A job writes a directory by Flink's filesystem sink, with a checkpoint every 1.5 s, beside a daemon that compacts and
commits the partitions.

The job is stopped with a savepoint. The daemon compacts partitions that are older than `restore_horizon`. Then the job
is restored, within the horizon, and writes the rest. A reader polls all the time. Takes about two minutes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from lakewarden.demo.daemon import DaemonProcess
from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.worker import bundles
from lakewarden.service.model.run import RunState
from live.flink.directory.polling import Polling
from live.flink.found import Found
from live.flink.process import FlinkJob, UnfinishedError

ROWS = 14_000
_STOPPED_AT = 12_000
_ROWS_PER_PARTITION = 1000
_HORIZON_SECONDS = 60
_TIMEOUT_SECONDS = 180.0

_PARQUET = Bundle(
    group="org.apache.flink",
    artifact="flink-parquet",
    version="1.20.1",
    sha256="da897630b713506e2e5e92b40edda23629ec6291e0461c2717f844eece03e2a0",
    size=178_748,
)
_OF_SPARK = ("parquet-*.jar", "snappy-java-*.jar", "commons-pool-1*.jar")
"""Spark brings the libraries that Flink's Parquet format needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """What happened. `between` are the partitions that were compacted between the savepoint and the restored job, which
    began `outage` seconds after the savepoint. `files` were left by the job, `left` are there at the end. `committed`
    are partitions with a marker that is newer than their data.
    """

    not_restored: str | None
    outage: float
    between: int
    partitions: int
    left: int
    committed: int
    rows: int
    twice: int
    sum: int
    reads: int
    complaints: tuple[str, ...]
    runs: dict[str, dict[str, int]]
    daemon_exit_code: int | None

    @property
    def right(self) -> bool:
        """Whether each number is there once, at every moment, and whether nothing failed."""
        return (
            self.not_restored is None
            and self.outage < _HORIZON_SECONDS
            and self.between > 0
            and self.left == self.committed == self.partitions
            and (self.rows, self.twice, self.sum) == (ROWS, 0, ROWS * (ROWS + 1) // 2)
            and self.reads > 10
            and not self.complaints
            and all(RunState.FAILED not in ended for ended in self.runs.values())
            and self.daemon_exit_code == 0
        )


def run(folder: Path) -> Found:
    """Run the scenario. Raises UnfinishedError."""
    table = folder / "landing" / "clicks"
    polling = Polling(table)
    daemon = DaemonProcess(
        folder / "daemon",
        table={
            "format": "directory",
            "path": str(table),
            "poll": "1s",
            "options": {
                "quiet_for": "3s",
                "quiet_intervals": 1,
                "restore_horizon": f"{_HORIZON_SECONDS}s",
                "list_all_every": "10s",
            },
        },
        services={
            "compaction": {"trigger": {"num_commits": 1}, "options": {"min_input_files": 2}},
            "partition_commit": {},
        },
    )
    polling.begin()
    try:
        course = _run(folder, table, daemon, polling)
    finally:
        daemon.stop()
        polling.end()
    complaints = tuple(dict.fromkeys(polling.complaints))
    course = Course(
        **{
            **asdict(course),
            **_rows(table),
            "reads": polling.reads,
            "complaints": complaints,
            "daemon_exit_code": daemon.process.exit_code,
        }
    )
    return Found(report={"rows_expected": ROWS, **asdict(course)}, proved=course.right)


def _run(folder: Path, table: Path, daemon: DaemonProcess, polling: Polling) -> Course:
    spark = bundles.spark_jars()
    job = FlinkJob(
        "job",
        Path(__file__).with_name("job.py"),
        ("--path", table.as_uri(), "--rows-per-partition", str(_ROWS_PER_PARTITION)),
        folder,
        jar=bundles.bring(_PARQUET),
        jars=[jar for pattern in _OF_SPARK for jar in spark.glob(pattern)],
    )
    first = job.begun("first", None, rows=ROWS)
    try:
        first.until(lambda: polling.newest >= _STOPPED_AT, within=_TIMEOUT_SECONDS)
        savepoint = first.stopped(within=_TIMEOUT_SECONDS)
    finally:
        first.end()
    stopped_at, before = time.monotonic(), _compacted(table)
    print(f"stopped at {polling.newest}, {before} partitions are compacted", flush=True)
    _wait(daemon, lambda: _compacted(table) > before, "a partition is compacted while the job is stopped")
    between = _compacted(table) - before
    restored, newest = job.begun("restored", savepoint, rows=ROWS), polling.newest
    try:
        restored.until(lambda: polling.newest > newest, within=_TIMEOUT_SECONDS)
        outage = time.monotonic() - stopped_at
        print(f"restored after {outage:.0f} s, with {between} partitions compacted meanwhile", flush=True)
        not_restored = restored.failure(within=_TIMEOUT_SECONDS)
    finally:
        restored.end()
    partitions = len(_partitions(table))
    _wait(daemon, lambda: _compacted(table) == _committed(table) == partitions, "all partitions are done")
    runs: dict[str, Counter[str]] = {}
    for one in daemon.runs():
        runs.setdefault(one.service, Counter())[one.state] += 1
    return Course(
        not_restored=not_restored,
        outage=round(outage, 1),
        between=between,
        partitions=partitions,
        left=sum(map(len, _partitions(table).values())),
        committed=_committed(table),
        rows=0,
        twice=0,
        sum=0,
        reads=0,
        complaints=(),
        runs={service: dict(ended) for service, ended in runs.items()},
        daemon_exit_code=None,
    )


def _wait(daemon: DaemonProcess, until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not until():
        if time.monotonic() > deadline or daemon.process.exit_code is not None:
            raise UnfinishedError(f"{what}: not so after {_TIMEOUT_SECONDS:.0f} s; {daemon.process.last_words(20)}")
        time.sleep(0.2)


def _partitions(table: Path) -> dict[Path, list[Path]]:
    """Return the data files of each partition."""
    return {
        place: [file for file in place.iterdir() if file.name[0] not in "._"]
        for place in sorted(table.glob("number=*"))
        if place.is_dir()
    }


def _compacted(table: Path) -> int:
    return sum(len(files) == 1 and "lakewarden" in files[0].name for files in _partitions(table).values())


def _committed(table: Path) -> int:
    return sum(_vouches(place / "_SUCCESS", files) for place, files in _partitions(table).items())


def _vouches(marker: Path, files: list[Path]) -> bool:
    return marker.exists() and all(file.stat().st_mtime_ns < marker.stat().st_mtime_ns for file in files)


def _rows(table: Path) -> dict[str, int]:
    """Return how many different numbers there are, how many are there more than once, and their sum."""
    query = f"select count(*), count(distinct id), sum(id) from read_parquet('{table}/number=*/part-*')"
    [(rows, different, total)] = duckdb.connect().execute(query).fetchall()
    return {"rows": different, "twice": rows - different, "sum": int(total)}
