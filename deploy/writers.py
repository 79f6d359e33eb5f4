"""What the writers of `config/s3.yaml` set, for each engine: `python -m deploy.writers` writes it into `writers/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakewarden.planners.ports import WriterEngine
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.writer_options import options_of, written_out

HERE = Path(__file__).parent
FILES: Mapping[WriterEngine, Path] = {
    WriterEngine.SPARK: HERE / "writers" / "spark.properties",
    WriterEngine.FLINK: HERE / "writers" / "flink.sql",
    WriterEngine.STREAMER: HERE / "writers" / "streamer.properties",
}


def text(engine: WriterEngine) -> str:
    """Return what `lakewarden writer-options sales.orders --engine ENGINE` prints before a run was measured."""
    config = load(HERE / "config" / "s3.yaml")
    body = options_of(config.tables[0], engine=engine, url=config.settings.api.url, held=None)
    return written_out(body, "the waits for the lock are the least that is safe") + "\n"


if __name__ == "__main__":
    for engine, file in FILES.items():
        file.write_text(text(engine), encoding="utf-8")
