"""The Flink job that writes the numbers 1 to N into a directory of Parquet files, run by the Python of its own
environment. A partition has so many numbers, one after another.
"""

from __future__ import annotations

import argparse

from live.flink import in_flink


def main() -> None:
    """Run the job until its rows are written, or until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", required=True, help="the folder of the directory, as a URI")
    parser.add_argument("--rows-per-partition", type=int, required=True)
    in_flink.add_arguments(parser)
    asked = parser.parse_args()
    flink = in_flink.environment(asked.jar, asked.savepoint)
    flink.execute_sql(
        "CREATE TEMPORARY TABLE clicks (id BIGINT, number STRING) PARTITIONED BY (number)"
        f" WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{asked.path}',"
        " 'sink.rolling-policy.inactivity-interval' = '1 min')"
    )
    flink.execute_sql(in_flink.numbers(asked))
    partition = f"LPAD(CAST((id - 1) / {asked.rows_per_partition} AS STRING), 4, '0')"
    in_flink.until_the_end(flink.execute_sql(f"INSERT INTO clicks SELECT id, {partition} FROM numbers"), asked)


if __name__ == "__main__":
    main()
