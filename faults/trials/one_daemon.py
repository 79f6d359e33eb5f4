"""The trial with one daemon, from an empty folder to the verdict: set-up, rounds, drain, checker."""

from __future__ import annotations

import contextlib
import time
from itertools import islice
from pathlib import Path

from rich.console import Console

from faults.checking.evidence import read_runs
from faults.checking.store_reader import SqliteStoreReader
from faults.formats.trial import FormatTrial
from faults.injection.cluster_victims import ClusterVictims
from faults.injection.deaths import Deaths
from faults.injection.schedule import faults_of
from faults.trials.report import FaultsReport, line_of, report_of
from faults.trials.rounds import NeverCameBackError, Rounds
from faults.trials.trial_setup import SPARK, TrialSetup, endings
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from tests.support import doubles
from tests.support.doubles.standalone_cluster import StandaloneCluster

_DRAINED_WITHIN_SECONDS = 420.0


def run(
    directory: Path,
    console: Console,
    interruption: Interruption,
    *,
    format_trial: FormatTrial,
    rounds: int,
    writers: int,
    seed: int,
    on_cluster: bool = False,
) -> FaultsReport:
    """Run the trial and return the report. Raises LakewardenError for errors that are not the daemon's."""
    begun = time.monotonic()
    setup = TrialSetup(directory, interruption, format_trial)
    cluster = StandaloneCluster(directory / "cluster") if on_cluster else None
    database = directory / "daemon" / "data" / "lakewarden.db"
    with (
        contextlib.ExitStack() as ending,
        Deaths(setup.injection.witness) as deaths,
        Environment(directory, format_trial.format_demo) as environment,
    ):
        if cluster is not None:
            ending.callback(cluster.end)
        rounds_run = _run_rounds(
            rounds=rounds,
            writers=writers,
            seed=seed,
            environment=environment,
            setup=setup,
            deaths=deaths,
            store_reader=SqliteStoreReader(database),
            console=console,
            cluster=cluster,
        )
    runs = read_runs(database) if database.exists() else []
    return report_of(
        rounds_run.rounds,
        table_format=format_trial.format_demo.format,
        points=format_trial.targets.points,
        seed=seed,
        seconds=time.monotonic() - begun,
        violations=setup.judge(environment, runs),
        writer=setup.writers_tally(),
        runs=endings(runs),
        resumed=rounds_run.resumed,
    )


def _run_rounds(
    *,
    rounds: int,
    writers: int,
    seed: int,
    environment: Environment,
    setup: TrialSetup,
    deaths: Deaths,
    store_reader: SqliteStoreReader,
    console: Console,
    cluster: StandaloneCluster | None,
) -> Rounds:
    """Run the rounds, end the writers, drain the daemon and end it."""
    format_trial = setup.format_trial
    daemon = environment.start_daemon(
        table=setup.table_entry(environment),
        services=format_trial.policies,
        settings={"spark": SPARK if cluster is None else {"default": {**SPARK["default"], **cluster.profile()}}},
        variables=setup.injection.variables,
        serve=doubles.DAEMON,
    )
    environment.expect_end(daemon.process)  # it may die
    writing = setup.start_writers(environment, daemon, seed=seed, writers=writers)
    victims = None if cluster is None else ClusterVictims(cluster, seed=seed)
    rounds_run = Rounds(
        format_trial=format_trial,
        environment=environment,
        daemon=daemon,
        injection=setup.injection,
        store_reader=store_reader,
        deaths=deaths,
        interruption=setup.interruption,
        cluster=victims,
    )
    try:
        for fault in islice(faults_of(seed, format_trial.targets, on_cluster=cluster is not None), rounds):
            console.print(line_of(rounds_run.run(fault), of=rounds), markup=False, soft_wrap=True)
            if setup.writer_has_failed():
                console.print("a commit of a writer has failed: no further round", style="red")
                break
        setup.end_writers(environment, writing)
        rounds_run.drain(at_most=_DRAINED_WITHIN_SECONDS)
    except NeverCameBackError as silence:
        setup.accuse(str(silence))
        setup.end_writers(environment, writing)
    setup.end_daemon(daemon)
    if victims is not None and (left := victims.left()):
        setup.accuse(f"{len(left)} executors were left behind: {', '.join(str(process) for process in left)}")
    return rounds_run
