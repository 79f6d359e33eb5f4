"""The hostile trial, from an empty folder to the verdict: good tables under a live writer, among hostile tables, stores
and clients.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from faults.hostile.attack_load import AttackLoad
from faults.hostile.copies import make_copies
from faults.hostile.gauges import Gauges, breaches
from faults.hostile.lake import Lake, unserviced
from faults.hostile.looks import wrong_with
from faults.hostile.report import HostileReport, longest_unseen
from faults.hostile.served import NoAnswerError, Served, left_behind
from faults.hostile.stores import Stores, bad_stores
from lakewarden.demo.daemon import Child, ZooKeeper
from lakewarden.demo.interruption import Interruption
from lakewarden.executors.worker import bundles, java
from lakewarden.planners.model.errors import TemporaryError
from tests.support.hostile.hostile_table import Hostile
from tests.support.hostile.hostile_tables import make_corpus, untouched

CADENCE_SECONDS = 10.0
_TABLES = 10
_IN_EACH_BAD_STORE = 6
_DRAIN_SECONDS = 15
_END_GRACE_SECONDS = 5.0
"""The extra time of an ending beyond its drain: Python's own shutdown."""

_START_SECONDS = 300.0
_RUNS = 1000
_SPARK: Mapping[str, Any] = {
    "default": {
        "memory": "1g",
        "master": "local[2]",
        "formats": ["hudi", "iceberg"],
        "conf": {"spark.driver.extraJavaOptions": java.LIGHT},
    }
}


@dataclass
class _Trial:
    """The state of the trial while it lasts."""

    found: list[str] = field(default_factory=list)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds_to_end: float | None = None


def run(
    directory: Path, console: Console, interruption: Interruption, *, minutes: float, only: Sequence[str], clients: bool
) -> HostileReport:
    """Run the trial and return the report. Raises LakewardenError for errors that are not the daemon's."""
    begun = time.monotonic()
    lake = Lake(folder=directory / "lake", tables=_TABLES, poll=f"{CADENCE_SECONDS:g}s")
    lake.folder.mkdir()
    say = _teller(console, begun)
    with ExitStack() as ends:
        with interruption.at_once():
            bundles.fetch(("hudi", "iceberg"))
            zookeeper = ZooKeeper(directory / "zookeeper")
            ends.callback(zookeeper.stop)
            stores = ends.enter_context(bad_stores(directory / "stores", tables=_IN_EACH_BAD_STORE, poll=lake.poll))
            _until(zookeeper.ready, "ZooKeeper is not up")
            settings = _settings(lake, stores, zookeeper.address)
            say("the writer starts")
            writer = _start_writer(directory, lake, settings)
            ends.callback(writer.end, grace=timedelta(seconds=20))
            _until(lambda: min(lake.commits().values()) >= 2, "the writer has not begun", alive=writer)
            say("making the hostile tables")
            corpus = make_corpus(directory, only=only)
            copies = make_copies(lake, directory)
            entries = [one.entry(directory / "tables") for one in (*corpus, *copies)]
            before = untouched(directory / "foreign")
            tables = [*settings["tables"], *entries]
            say("the daemon starts")
            served = Served(directory / "daemon", {**settings, "tables": tables}, drain_seconds=_DRAIN_SECONDS)
            ends.callback(served.process.end, grace=timedelta(seconds=5))
            _until(served.responds, "the daemon is not up", alive=served.process)
        good = [*lake.names, *(str(one["id"]) for one in stores.good)]
        trial = _Trial()
        with Gauges(served, good) as gauges, AttackLoad(served.api, served.management, enabled=clients) as attack_load:
            _stand(served, gauges, trial, interruption, minutes=minutes, say=say)
        with interruption.at_once():
            say("the attacks are over")
            _let_finish(served, lake, trial, interruption)
            trial.found += _wrong_looks(served, (*corpus, *copies))
            writer.end(grace=timedelta(seconds=60))
            _end(served, directory / "daemon", trial)
            touched = _touched(before, untouched(directory / "foreign"))
    with interruption.at_once():
        runs = list(trial.runs.values())
        found = [
            *breaches(gauges.measured, cadence=CADENCE_SECONDS),
            *trial.found,
            *attack_load.wrong,
            *touched,
            *unserviced(lake.names, runs),
            *lake.wrong(),
        ]
    return HostileReport(
        seconds=round(time.monotonic() - begun, 1),
        good_tables=len(good),
        hostile_tables=len(entries),
        hanging_tables=len(stores.hanging),
        cadence_seconds=CADENCE_SECONDS,
        longest_unseen_seconds=longest_unseen(gauges.measured),
        livez=gauges.measured.probes,
        livez_failed=len(gauges.measured.livez_failures),
        livez_slowest_seconds=round(gauges.measured.livez_slowest, 2),
        memory_bytes=gauges.measured.memory,
        log_bytes=gauges.measured.log,
        commits=sum(lake.commits().values()),
        runs=_endings(runs, lake.names),
        attacks=dict(sorted(attack_load.attacks.items())),
        seconds_to_end=None if trial.seconds_to_end is None else round(trial.seconds_to_end, 1),
        violations=list(dict.fromkeys(found)),
    )


def _settings(lake: Lake, stores: Stores, zookeeper: str) -> dict[str, Any]:
    return {
        "spark": _SPARK,
        "storage": list(stores.settings),
        "tables": [*lake.entries(zookeeper=zookeeper), *stores.good, *stores.hanging],
    }


def _start_writer(directory: Path, lake: Lake, settings: Mapping[str, Any]) -> Child:
    config = directory / "writer-options.yaml"
    config.write_text(json.dumps({**settings, "daemon": {"data_dir": str(directory / "unused")}}), encoding="utf-8")
    lake.tell_writer(config)
    command = [sys.executable, "-m", "faults.hostile.writers", "--lake", str(lake.folder), "--tables", str(lake.tables)]
    return Child("writer", command, log=directory / "writer.log")


def _stand(
    served: Served,
    gauges: Gauges,
    trial: _Trial,
    interruption: Interruption,
    *,
    minutes: float,
    say: Callable[[str], None],
) -> None:
    """Let the time pass, and keep the runs."""
    begun = time.monotonic()
    told_at = begun
    while (now := time.monotonic()) - begun < minutes * 60:
        interruption.pause(2)
        if served.process.exit_code is not None:
            trial.found.append(f"the daemon ended by itself with {served.process.exit_code}")
            return
        _note_runs(served, trial)
        if now - told_at >= 30:
            told_at = now
            say(f"{_so_far(trial)}; {gauges.measured.memory / 2**20:.0f} MiB, at most")
    if not gauges.all_looked_at():
        trial.found.append("not every good table was observed")


def _note_runs(served: Served, trial: _Trial) -> None:
    """Keep the newest runs. The API may not answer under attack. The next attempt follows soon."""
    with contextlib.suppress(NoAnswerError):
        trial.runs = {
            **trial.runs,
            **{run["id"]: run for run in served.get(f"/v1/runs?limit={_RUNS}", within=5)["items"]},
        }


def _let_finish(served: Served, lake: Lake, trial: _Trial, interruption: Interruption) -> None:
    """Give the runs that have begun on the good tables time to end. Nothing attacks the daemon any more."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and served.process.exit_code is None:
        _note_runs(served, trial)
        if not unserviced(lake.names, list(trial.runs.values())):
            return
        interruption.pause(1)


def _wrong_looks(served: Served, tables: Sequence[Hostile]) -> list[str]:
    try:
        shown = served.tables(within=60)
    except NoAnswerError as silent:
        return [f"the tables cannot be shown: {silent}"]
    looks = ((one.name, wrong_with(one, shown.get(f"hostile.{one.name}"))) for one in tables)
    return [f"hostile.{name}: {wrong}" for name, wrong in looks if wrong is not None]


def _end(served: Served, directory: Path, trial: _Trial) -> None:
    """Ask the daemon to end, and record what is left of it."""
    at_most = served.drain_seconds + _END_GRACE_SECONDS
    trial.seconds_to_end = served.seconds_to_end(at_most=at_most)
    if trial.seconds_to_end is None:
        trial.found.append(f"it had not ended {at_most:g} s after it was asked to")
    if left := left_behind(directory):
        trial.found.append(f"{left} processes were left behind")


def _touched(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for word, names in (
        ("gone", before.keys() - after.keys()),
        ("new", after.keys() - before.keys()),
        ("not as they were", {name for name in before.keys() & after.keys() if before[name] != after[name]}),
    ):
        if names:
            yield f"{len(names)} files of tables that are not registered are {word}: {sorted(names)[:5]}"


def _endings(runs: Sequence[Mapping[str, Any]], good: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many runs of each service ended in each state, with the hostile tables apart."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        whose = "" if run["table"] in good else "hostile "
        counted[f"{whose}{run['service']}"][str(run["state"])] += 1
    return {service: dict(sorted(of.items())) for service, of in sorted(counted.items())}


def _so_far(trial: _Trial) -> str:
    ended = Counter(str(run["state"]).lower() for run in trial.runs.values())
    return "runs: " + (", ".join(f"{times} {state}" for state, times in sorted(ended.items())) or "none yet")


def _until(true: Callable[[], bool], otherwise: str, *, alive: Child | None = None) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not true():
        if time.monotonic() > deadline or (alive is not None and alive.exit_code is not None):
            words = "" if alive is None else f": {alive.last_words()}"
            raise TemporaryError(f"{otherwise}{words}", delay=timedelta(seconds=1))
        time.sleep(0.2)


def _teller(console: Console, begun: float) -> Callable[[str], None]:
    def say(what: str) -> None:
        console.print(f"{time.monotonic() - begun:>6.0f} s  {what}", markup=False, soft_wrap=True)

    return say
