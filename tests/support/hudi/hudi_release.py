"""One Hudi release in a process of its own, with a JVM that has only that release's bundle."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lakewarden.executors.worker import bundles, java
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES

ROW = "order_id string, note string, ts long, region string"
Row = tuple[str, str, int, str]
_Answer = TypeVar("_Answer")

_CONF = {
    "spark.master": "local[1]",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java.LIGHT}",
    "spark.sql.session.timeZone": "UTC",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class HudiRelease:
    """Writes and reads tables with one release, and returns what that release sees in them. To be closed."""

    def __init__(self, version: str) -> None:
        self.version = version
        jar = bundles.bring(HUDI_BUNDLES[version])
        self._process = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), initializer=_start_spark, initargs=(str(jar),)
        )

    def write(self, path: Path, rows: Sequence[Row], options: Mapping[str, str]) -> None:
        """Commit one batch."""
        self._ask(_write, str(path), list(rows), dict(options))

    def rows(self, path: Path) -> dict[str, str]:
        """Return every order's note, as this release reads it."""
        return self._ask(_rows, str(path))

    def says(self, path: Path, kind: str) -> Any:
        """Return this release's own account of a table of the type `kind`: see tests/fixtures/hudi/generate.py."""
        return self._ask(_says, str(path), kind)

    def _ask(self, what: Callable[..., _Answer], *arguments: Any) -> _Answer:
        return self._process.submit(_in_words, what, *arguments).result()

    def close(self) -> None:
        """End the process and its JVM."""
        self._process.shutdown()


# ---- inside the process

_spark: Any = None


def _start_spark(jar: str) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - for this process alone

    global _spark  # noqa: PLW0603 - the process is this session
    os.environ["JAVA_HOME"] = str(java.java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(Path(jar).stem).config("spark.driver.extraClassPath", jar)
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    _spark = builder.getOrCreate()
    _spark.sparkContext.setLogLevel("WARN")


def _in_words(what: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """Do it here. Errors of the JVM are passed on as text, because its own exceptions cannot leave the process."""
    try:
        return what(*arguments)
    except Exception as error:  # noqa: BLE001 - the edge of the process
        raise RuntimeError(str(error)[:2000]) from None


def _write(path: str, rows: list[Row], options: dict[str, str]) -> None:
    frame = _spark.createDataFrame(rows, ROW).coalesce(1)
    frame.write.format("hudi").options(**options).mode("append").save(f"file://{path}")


def _rows(path: str) -> dict[str, str]:
    found = _spark.read.format("hudi").load(f"file://{path}").select("order_id", "note").collect()
    assert len({row.order_id for row in found}) == len(found), "an order was found twice"
    return {row.order_id: row.note for row in found}


def _says(path: str, kind: str) -> dict[str, Any]:
    from tests.fixtures.hudi.generate import Maker  # noqa: PLC0415 - imports pyspark

    return Maker(_spark, Path(path), kind).what_hudi_says()
