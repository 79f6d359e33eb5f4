"""Which Spark runs on which Java with which format jars. These combinations were tested together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.registry import ON_SPARK


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkLine:
    """One Spark version with its Scala, Java's major version, and the bundle of each format. `stores` are the jars that
    Spark's own jars lack for a kind of store, by the scheme of its locations. `clients` are the further jars that some
    tables of a format need.
    """

    spark: str
    scala: str
    java: int
    bundles: Mapping[str, Bundle]
    stores: Mapping[str, tuple[Bundle, ...]] = field(default_factory=dict)
    clients: Mapping[str, Mapping[str, Bundle]] = field(default_factory=dict)


def _bundles(line: str) -> Mapping[str, Bundle]:
    return {name: table_format.bundles[line] for name, table_format in ON_SPARK.items() if line in table_format.bundles}


SPARK_LINES: Mapping[str, SparkLine] = {
    "3.5": SparkLine(
        spark="3.5.9",
        scala="2.12",
        java=17,
        bundles=_bundles("3.5"),
        clients={name: table_format.clients for name, table_format in ON_SPARK.items()},
        stores={
            "s3": (  # of the Hadoop in PySpark, with the SDK for which it was built
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
