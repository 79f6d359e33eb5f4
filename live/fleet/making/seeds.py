"""Writes the Hudi tables that are copied, by one Spark with Hudi's own writer.

python -m live.fleet.making.seeds --directory DIRECTORY --zookeeper HOST:PORT --commits N
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from lakewarden.demo.formats.hudi.writer import start_spark
from live.fleet.kinds import CRON_SEEDS, SEEDS

ROW = "order_id string, note string, ts long, region string"
LOCKS = "/hudi/locks"


def table_options(seed: str, name: str) -> Mapping[str, str]:
    """Return what a writer of a seed, or of its copy, sets about the table."""
    kind = {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}[seed[:3]]
    return {
        "hoodie.table.name": name,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "order_id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.write.table.version": seed[3],
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.parquet.bloom.filter.enabled": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.archive.automatic": "false",
    }


def lock_options(zookeeper: str, key: str) -> Mapping[str, str]:
    """Return what a writer sets about its lock."""
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": zookeeper,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": key,
    }


def _services(seed: str) -> Mapping[str, str]:
    by_itself = seed in CRON_SEEDS
    return {
        "hoodie.compact.inline": str(by_itself and seed.startswith("mor")).lower(),
        "hoodie.compact.inline.max.delta.commits": "4",
        "hoodie.clean.automatic": str(by_itself).lower(),
        "hoodie.clean.commits.retained": "3",
        "hoodie.cleaner.commits.retained": "3",
    }


def main() -> int:
    """Write each seed. Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--commits", type=int, default=12)
    asked = parser.parse_args()
    spark = start_spark()
    spark.sparkContext.setLogLevel("ERROR")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for seed in (*SEEDS, *CRON_SEEDS):
        options = {**table_options(seed, seed), **lock_options(asked.zookeeper, seed), **_services(seed)}
        for number in range(asked.commits):
            rows = [(f"o{key}", f"{number}-{key}", number, f"p{key % 2}") for key in range(20)]
            frame = spark.createDataFrame(rows, ROW).coalesce(1)
            frame.write.format("hudi").options(**options).mode("append").save(f"file://{asked.directory / seed}")
        print(f"{seed} is written", flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
