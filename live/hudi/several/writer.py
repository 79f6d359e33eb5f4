"""One of several live writers of a Hudi table, of any release, with a composed record key.

    python -m live.hudi.several.writer --shop a --release 1.1.1 --path DIRECTORY --options FILE --record FILE

It ends on SIGTERM, or if the process that started it is gone. It always ends between two commits. It records failed
commits and tries the same rows again. It signs each commit with its batch.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.formats.hudi.writer import BatchCommitter
from lakewarden.demo.writers.orders import day_by_clock
from lakewarden.demo.writers.writing import WritingTime, small_spark, write_on
from lakewarden.executors.worker import bundles
from live.hudi.several.shops import sales
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES

CONF: Mapping[str, str] = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}
"""What Hudi needs of any release of Spark."""

_OF_LATER_WRITERS_ALONE = 9
_BESIDE_OLDER = {"hoodie.metadata.streaming.write.enabled": "false"}
"""A writer of 1.0 rolls back what writers of later releases have in flight in the metadata table. Those writers then
fail (docs/writers.md)."""

_PACKS = {"hoodie.parquet.small.file.limit": "104857600"}


def written_options(kind: TableType, *, table_version: int, packs: bool) -> dict[str, str]:
    """Return what a writer sets about the table: its version, whatever default the writer's release has, and a record
    key of two fields. A writer that `packs` puts new rows into the small files of other writers. It conflicts with
    them.
    """
    return {
        **table_options("orders", kind=kind, workload=Workload.DAYS),
        "hoodie.datasource.write.precombine.field": "version",  # the name before 1.1
        "hoodie.datasource.write.recordkey.field": "order_id,region",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.write.table.version": str(table_version),
        "hoodie.write.auto.upgrade": "false",
        **(_BESIDE_OLDER if table_version < _OF_LATER_WRITERS_ALONE else {}),
        **(_PACKS if packs else {}),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shop", required=True, help="whose orders are written")
    parser.add_argument("--release", choices=HUDI_BUNDLES, required=True, help="of Hudi")
    parser.add_argument("--table-version", type=int, required=True, help="of the table, or of the one to be made")
    parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="its type, mor or cow")
    parser.add_argument("--path", type=Path, required=True, help="where the table is, or is to be made")
    parser.add_argument("--options", type=Path, required=True, help="what its writers must set: a JSON object")
    parser.add_argument("--record", type=Path, required=True, help="where every batch and its ending is recorded")
    parser.add_argument("--shared", action="store_true", help="write into the days of all shops")
    parser.add_argument("--packs", action="store_true", help="put new rows into small files of any writer's")
    parser.add_argument("--every", type=float, default=2.5, metavar="SECONDS", help="the least time between commits")
    parser.add_argument("--day", type=float, default=20, metavar="SECONDS", help="how long a day is")
    parser.add_argument("--seed", type=int, default=0, help="which stream of batches")
    return parser.parse_args()


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    asked = _arguments()
    writing_time = WritingTime(None)
    spark = small_spark([bundles.bring(HUDI_BUNDLES[asked.release])], CONF)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    options = {
        **written_options(asked.table_type, table_version=asked.table_version, packs=asked.packs),
        **json.loads(asked.options.read_text(encoding="utf-8")),
    }
    committer = BatchCommitter(spark, path=asked.path, options=options, writer=asked.shop)
    sold = sales(asked.shop, seed=asked.seed, day_of=day_by_clock(asked.day), shared=asked.shared)
    write_on(committer, sold, asked.record, writing_time, every=asked.every)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
