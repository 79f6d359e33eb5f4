"""Iceberg's jar."""

from __future__ import annotations

from lakewarden.executors.on_spark import Bundle, OnSpark

ICEBERG = OnSpark(
    bundle=Bundle(
        group="org.apache.iceberg",
        artifact="iceberg-spark-runtime-3.5_2.12",
        version="1.11.0",
        sha256="94b8e36fc329f0293d44ba9e01b784a56e9501affec1842d898144c51f6e486a",
        size=47_964_645,
    ),
    clients={
        "aws": Bundle(  # for credentials that a catalog hands out, and for signed requests
            group="org.apache.iceberg",
            artifact="iceberg-aws-bundle",
            version="1.11.0",
            sha256="38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
            size=63_613_165,
        ),
    },
)
