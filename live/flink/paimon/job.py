"""The Flink job that writes the numbers 1 to N into two Paimon tables, run by the Python of its own environment.

`orders` has a primary key: the remainder of the number by 500. `events` has none, and two partitions: the first half of
the numbers and the second.
"""

from __future__ import annotations

import argparse
import json

from live.flink import in_flink

_DATABASE = "lake.shop"


def main() -> None:
    """Run the job until its rows are written, or until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--keys", type=int, required=True)
    for table in ("orders", "events"):
        parser.add_argument(f"--{table}", type=json.loads, required=True, help="its table options: a JSON object")
    in_flink.add_arguments(parser)
    asked = parser.parse_args()
    flink = in_flink.environment(asked.jar, asked.savepoint)
    flink.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{asked.warehouse}')")
    flink.execute_sql(f"CREATE DATABASE IF NOT EXISTS {_DATABASE}")
    orders, events = f"{_DATABASE}.orders", f"{_DATABASE}.events"
    flink.execute_sql(
        f"CREATE TABLE IF NOT EXISTS {orders} (k BIGINT, id BIGINT, PRIMARY KEY (k) NOT ENFORCED)"
        f" WITH ({_with(asked.orders)})"
    )
    flink.execute_sql(
        f"CREATE TABLE IF NOT EXISTS {events} (id BIGINT, dt STRING) PARTITIONED BY (dt) WITH ({_with(asked.events)})"
    )
    flink.execute_sql(in_flink.numbers(asked))
    both = flink.create_statement_set()
    both.add_insert_sql(f"INSERT INTO {orders} SELECT MOD(id, {asked.keys}), id FROM numbers")
    day = f"CASE WHEN id <= {asked.rows // 2} THEN '2020-01-01' ELSE '2020-01-02' END"
    both.add_insert_sql(f"INSERT INTO {events} SELECT id, {day} FROM numbers")
    in_flink.until_the_end(both.execute(), asked)


def _with(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


if __name__ == "__main__":
    main()
