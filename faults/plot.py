"""The proof with one daemon, from an empty folder to the verdict: stage, rounds, drain, checker."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

from rich.console import Console

from faults.deaths import Deaths
from faults.deck import deal
from faults.evidence import read_runs
from faults.ledger import SqliteLedger
from faults.report import FaultsReport, line_of, report_of
from faults.rounds import NeverCameBackError, Rounds
from faults.scenery import POLICIES, SPARK, Scenery, endings
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.demo import PIECE as HUDI
from lakewarden.demo.formats.hudi.demo import table_entry
from lakewarden.demo.interruption import Interruption

_DRAINED_WITHIN_SECONDS = 420.0


def play(
    directory: Path, console: Console, interruption: Interruption, *, rounds: int, writers: int, seed: int
) -> FaultsReport:
    """Play all of it and return the report. Raises LakewardenError for trouble that is not the daemon's."""
    begun = time.monotonic()
    scenery = Scenery(directory, interruption)
    database = directory / "daemon" / "data" / "lakewarden.db"
    with Deaths(scenery.arms.witness) as deaths, Environment(directory, HUDI) as stage:
        played = _play_rounds(
            rounds=rounds,
            writers=writers,
            seed=seed,
            stage=stage,
            scenery=scenery,
            deaths=deaths,
            ledger=SqliteLedger(database),
            console=console,
        )
    runs = read_runs(database) if database.exists() else []
    return report_of(
        played.struck,
        seed=seed,
        seconds=time.monotonic() - begun,
        violations=scenery.judge(stage, runs),
        writer=scenery.writers_tally(),
        runs=endings(runs),
        resumed=played.resumed,
    )


def _play_rounds(
    *,
    rounds: int,
    writers: int,
    seed: int,
    stage: Environment,
    scenery: Scenery,
    deaths: Deaths,
    ledger: SqliteLedger,
    console: Console,
) -> Rounds:
    """Play the rounds, end the writers, drain the daemon and end it."""
    zookeeper = scenery.start_zookeeper(stage)
    daemon = stage.start_daemon(
        table=table_entry(stage.table, zookeeper=zookeeper.address),
        services=POLICIES,
        settings={"spark": SPARK},
        variables=scenery.arms.variables,
    )
    stage.dismiss(daemon.process)  # it may die
    writing = scenery.start_writers(stage, daemon, seed=seed, writers=writers)
    played = Rounds(
        stage=stage,
        daemon=daemon,
        arms=scenery.arms,
        ledger=ledger,
        deaths=deaths,
        interruption=scenery.interruption,
    )
    try:
        for strike in islice(deal(seed), rounds):
            console.print(line_of(played.play(strike), of=rounds), markup=False, soft_wrap=True)
            if scenery.writer_has_failed():
                console.print("a commit of a writer has failed: no further round", style="red")
                break
        scenery.end_writers(stage, writing)
        played.drain(at_most=_DRAINED_WITHIN_SECONDS)
    except NeverCameBackError as silence:
        scenery.accuse(str(silence))
        scenery.end_writers(stage, writing)
    scenery.end_daemon(daemon)
    return played
