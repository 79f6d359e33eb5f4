"""Which Spark runs on which Java with which format jars: the one table of what was proved together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    """One Spark version with its Scala, Java's major version, the bundle of each format, and what Spark's own jars
    lack for a kind of store, by the scheme of its locations.
    """

    spark: str
    scala: str
    java: int
    bundles: Mapping[str, Bundle]
    stores: Mapping[str, tuple[Bundle, ...]] = field(default_factory=dict)


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
            "iceberg": Bundle(
                group="org.apache.iceberg",
                artifact="iceberg-spark-runtime-3.5_2.12",
                version="1.11.0",
                sha256="94b8e36fc329f0293d44ba9e01b784a56e9501affec1842d898144c51f6e486a",
                size=47_964_645,
            ),
        },
        stores={
            "s3": (  # of the Hadoop that PySpark brings, with the SDK it was built with
                Bundle(
                    group="org.apache.hadoop",
                    artifact="hadoop-aws",
                    version="3.3.4",
                    sha256="53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
                    size=962_685,
                ),
                Bundle(
                    group="com.amazonaws",
                    artifact="aws-java-sdk-bundle",
                    version="1.12.262",
                    sha256="873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
                    size=280_645_251,
                ),
            ),
        },
    ),
}

LINE = SPARK_LINES["3.5"]
"""The line that pyproject.toml installs."""
