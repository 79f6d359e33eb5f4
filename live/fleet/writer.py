"""The live writer of some Hudi tables, one after another, with the options in the files of `lakewarden writer-options`.

    python -m live.fleet.writer --tables FILE --record FILE

It ends at SIGTERM, between two commits.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from lakewarden.demo.formats.hudi.writer import start_spark
from live.fleet.making.seeds import ROW, table_options

_EVERY_SECONDS = 1.0
FIRST = 100
"""The number of the first commit. Seeds have smaller ones."""


def properties_in(file: Path, *, wrong_lock: bool) -> dict[str, str]:
    """Return the options in a file of `writer-options`. The writer with the wrong lock has another key."""
    lines = [line.partition("=") for line in file.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
    options = {key.strip(): value.strip() for key, _, value in lines}
    if wrong_lock:
        options["hoodie.write.lock.zookeeper.lock_key"] += "_other"
    return options


def rows_of(number: int) -> dict[str, str]:
    """Return the rows after a commit."""
    return {f"o{key}": f"{number}-{key}" for key in range(20)}


def main() -> int:
    """Write until told to end. Returns 0: the record has the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tables", type=Path, required=True, help="JSON: name, path, seed, options, wrong_lock of each"
    )
    parser.add_argument("--record", type=Path, required=True)
    asked = parser.parse_args()
    tables = json.loads(asked.tables.read_text(encoding="utf-8"))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    spark = start_spark()
    spark.sparkContext.setLogLevel("ERROR")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    number = FIRST
    while not ended.is_set():
        for one in tables:
            options = properties_in(Path(one["options"]), wrong_lock=one["wrong_lock"])
            rows = [(key, note, number, f"p{int(key[1:]) % 2}") for key, note in rows_of(number).items()]
            written = spark.createDataFrame(rows, ROW).coalesce(1).write.format("hudi")
            failure = None
            try:
                written.options(**{**options, **table_options(one["seed"], one["name"])}).mode("append").save(
                    f"file://{one['path']}"
                )
            except Exception as error:  # noqa: BLE001 - what fails is counted
                failure = str(error)[:500]
            with asked.record.open("a", encoding="utf-8") as record:
                record.write(json.dumps({"table": one["name"], "number": number, "failure": failure}) + "\n")
            if ended.wait(_EVERY_SECONDS):
                break
        number += 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
