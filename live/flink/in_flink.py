"""What every job has, run by the Python of Flink's own environment. It imports nothing of Lakewarden's.

As soon as the file `--stop` is there, the job stops with a savepoint and prints the savepoint's address. If it is
restored from a savepoint (`--savepoint`), it continues where it was. It ends after its last row.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

from pyflink.common import Configuration, JobClient  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment, TableResult  # type: ignore[import-not-found]

STOPPED = "stopped with savepoint "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every job."""
    parser.add_argument("--savepoints", required=True, help="the folder of savepoints, as a URI")
    parser.add_argument("--savepoint", help="continue from this savepoint")
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--jar", required=True, help="the jar of the sink")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rows-per-second", type=int, required=True)


def environment(jar: str, savepoint: str | None) -> TableEnvironment:
    """Return the environment of a job with a checkpoint every 1.5 s. A job that fails is not restarted."""
    settings = {
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": "0",
        "parallelism.default": "1",
        "taskmanager.numberOfTaskSlots": "2",
        "execution.checkpointing.interval": "1500ms",
        "restart-strategy.type": "none",
        "pipeline.jars": Path(jar).as_uri(),
        "pipeline.classpaths": Path(jar).as_uri(),
        **({} if savepoint is None else {"execution.state-recovery.path": savepoint}),
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    return TableEnvironment.create(chosen)


def numbers(asked: argparse.Namespace) -> str:
    """Return the statement that makes the source `numbers`: 1 to `--rows`, each once."""
    return (
        "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',"
        f" 'fields.id.start' = '1', 'fields.id.end' = '{asked.rows}', 'rows-per-second' = '{asked.rows_per_second}')"
    )


def until_the_end(result: TableResult, asked: argparse.Namespace) -> None:
    """Wait until the job's rows are written, or until it is stopped."""
    stopper = threading.Thread(target=_stop_when_told, args=(result.get_job_client(), asked.stop, asked.savepoints))
    stopper.daemon = True
    stopper.start()
    result.wait()
    if asked.stop.exists():
        stopper.join()


def _stop_when_told(job: JobClient, stop: Path, savepoints: str) -> None:
    while not stop.exists():
        time.sleep(0.1)
    stopping = job.stop_with_savepoint(advance_to_end_of_event_time=False, savepoint_directory=savepoints)
    print(f"{STOPPED}{stopping.result()}", flush=True)
