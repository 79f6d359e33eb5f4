"""A careless nightly job: it rewrites all files and expires all snapshots except the newest."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from pydantic import TypeAdapter

from lakewarden.demo.writers.writing import small_spark
from lakewarden.executors.worker import bundles
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from live.sqlite_driver import SQLITE

_PROCEDURES = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}


def main() -> None:
    """Service one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalog", required=True, help="its settings, as JSON")
    parser.add_argument("--table", required=True, help="catalog.namespace.table")
    asked = parser.parse_args()
    catalog, _, identifier = asked.table.partition(".")
    conf = spark_conf(catalog, TypeAdapter(Catalog).validate_python(json.loads(asked.catalog)))
    spark = small_spark([*bundles.fetch(["iceberg"]), bundles.bring(SQLITE)], {**conf, **_PROCEDURES})
    try:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        every = "map('rewrite-all', 'true')"
        spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{identifier}', options => {every})").collect()
        keep_one = f"older_than => TIMESTAMP '{now}', retain_last => 1"
        spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{identifier}', {keep_one})").collect()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
