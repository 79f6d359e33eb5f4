"""The options of the writers of `config/s3.yaml`, for each engine, and of the Flink jobs of `config/flink.yaml`.

`python -m deploy.writers` writes them into `writers/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakewarden.planners.formats.hudi.writers.writer_options import STREAMER
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.writer_options import options_of, written_out

HERE = Path(__file__).parent
FILES: Mapping[WriterEngine, Path] = {
    SPARK: HERE / "writers" / "spark.properties",
    FLINK: HERE / "writers" / "flink.sql",
    STREAMER: HERE / "writers" / "streamer.properties",
}
FLINK_FILES: Mapping[str, Path] = {
    "sales.refunds": HERE / "writers" / "flink_paimon.sql",
    "landing.clicks": HERE / "writers" / "flink_directory.sql",
}
"""Those of Flink's sinks, by the table of `config/flink.yaml`."""


def text(engine: WriterEngine) -> str:
    """Return what `lakewarden writer-options sales.orders --engine ENGINE` prints before any run was measured."""
    return _text("s3.yaml", "sales.orders", engine, "the waits for the lock are the shortest safe ones")


def text_of_sink(table: str) -> str:
    """Return what `lakewarden writer-options TABLE --engine flink` prints for a table of `config/flink.yaml`."""
    return _text("flink.yaml", table, FLINK, "they are options of the sink in Flink")


def _text(file: str, name: str, engine: WriterEngine, note: str) -> str:
    config = load(HERE / "config" / file)
    [table] = [one for one in config.tables if one.id == name]
    body = options_of(table, FORMATS[table.format], engine=engine, url=config.settings.api.url, held=None)
    return written_out(body, note, syntax=engine.syntax) + "\n"


if __name__ == "__main__":
    for engine, file in FILES.items():
        file.write_text(text(engine), encoding="utf-8")
    for table, file in FLINK_FILES.items():
        file.write_text(text_of_sink(table), encoding="utf-8")
