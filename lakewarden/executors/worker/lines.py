"""Which Spark runs on which Java with which format jars: the one table of what was proved together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One jar in a Maven repository. `size` is in bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """Return the jar's name in the cache."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkLine:
    """One Spark version with its Scala, Java's major version, and the bundle of each format."""

    spark: str
    scala: str
    java: int
    bundles: Mapping[str, Bundle]


SPARK_LINES: Mapping[str, SparkLine] = {
    "3.5": SparkLine(
        spark="3.5.9",
        scala="2.12",
        java=17,
        bundles={
            "hudi": Bundle(
                group="org.apache.hudi",
                artifact="hudi-spark3.5-bundle_2.12",
                version="1.2.0",
                sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
                size=80_667_825,
            ),
        },
    ),
}

LINE = SPARK_LINES["3.5"]
"""The line that pyproject.toml installs."""
