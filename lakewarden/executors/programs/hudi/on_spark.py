"""Hudi's jar, and what it asks of a session."""

from __future__ import annotations

from lakewarden.executors.on_spark import Bundle, OnSpark

HUDI = OnSpark(
    bundle=Bundle(
        group="org.apache.hudi",
        artifact="hudi-spark3.5-bundle_2.12",
        version="1.2.0",
        sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
        size=80_667_825,
    ),
    conf={"spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar"},
)
