"""The Flink job, run by the Python of its own environment: the numbers 1 to N go into an Iceberg table.

As soon as the file `--stop` is there it stops with a savepoint, whose address it prints. Restored from one
(`--savepoint`) it goes on where it was. It ends with its rows.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

from pyflink.common import Configuration, JobClient  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

STOPPED = "stopped with savepoint "


def main() -> None:
    """Run the job until its rows are written, or until it is stopped."""
    asked = _arguments()
    flink = _environment(asked.jar, asked.savepoint)
    catalog, namespace, _ = asked.table.split(".")
    flink.execute_sql(
        f"CREATE CATALOG {catalog} WITH ('type' = 'iceberg', 'uri' = '{asked.uri}', 'warehouse' = '{asked.warehouse}',"
        " 'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', 'jdbc.schema-version' = 'V1',"
        " 'jdbc.busy_timeout' = '20000')"
    )
    flink.execute_sql(f"CREATE DATABASE IF NOT EXISTS {catalog}.{namespace}")
    flink.execute_sql(f"CREATE TABLE IF NOT EXISTS {asked.table} (id BIGINT) WITH ('format-version' = '2')")
    flink.execute_sql(
        "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',"
        f" 'fields.id.start' = '1', 'fields.id.end' = '{asked.rows}', 'rows-per-second' = '{asked.rows_per_second}')"
    )
    result = flink.execute_sql(f"INSERT INTO {asked.table} SELECT id FROM numbers")
    stopper = threading.Thread(target=_stop_when_told, args=(result.get_job_client(), asked.stop, asked.savepoints))
    stopper.daemon = True
    stopper.start()
    result.wait()
    if asked.stop.exists():
        stopper.join()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--table", "--uri", "--warehouse", "--savepoints"):
        parser.add_argument(name, required=True)
    parser.add_argument("--savepoint", help="go on from there")
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--jar", required=True, help="of Iceberg")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rows-per-second", type=int, required=True)
    return parser.parse_args()


def _environment(jar: str, savepoint: str | None) -> TableEnvironment:
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


def _stop_when_told(job: JobClient, stop: Path, savepoints: str) -> None:
    while not stop.exists():
        time.sleep(0.1)
    stopping = job.stop_with_savepoint(advance_to_end_of_event_time=False, savepoint_directory=savepoints)
    print(f"{STOPPED}{stopping.result()}", flush=True)


if __name__ == "__main__":
    main()
