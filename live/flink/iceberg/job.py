"""The Flink job that writes the numbers 1 to N into an Iceberg table, run by the Python of its own environment."""

from __future__ import annotations

import argparse

from live.flink import in_flink


def main() -> None:
    """Run the job until its rows are written, or until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--table", "--uri", "--warehouse"):
        parser.add_argument(name, required=True)
    in_flink.add_arguments(parser)
    asked = parser.parse_args()
    flink = in_flink.environment(asked.jar, asked.savepoint)
    catalog, namespace, _ = asked.table.split(".")
    flink.execute_sql(
        f"CREATE CATALOG {catalog} WITH ('type' = 'iceberg', 'uri' = '{asked.uri}', 'warehouse' = '{asked.warehouse}',"
        " 'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', 'jdbc.schema-version' = 'V1',"
        " 'jdbc.busy_timeout' = '20000')"
    )
    flink.execute_sql(f"CREATE DATABASE IF NOT EXISTS {catalog}.{namespace}")
    flink.execute_sql(f"CREATE TABLE IF NOT EXISTS {asked.table} (id BIGINT) WITH ('format-version' = '2')")
    flink.execute_sql(in_flink.numbers(asked))
    in_flink.until_the_end(flink.execute_sql(f"INSERT INTO {asked.table} SELECT id FROM numbers"), asked)


if __name__ == "__main__":
    main()
