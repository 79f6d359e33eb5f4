"""Paimon's jar: its core with the file formats, without an engine. It runs in the JVM of a session worker."""

from __future__ import annotations

from lakewarden.executors.on_spark import Bundle, OnSpark

PAIMON = OnSpark(
    bundle=Bundle(
        group="org.apache.paimon",
        artifact="paimon-bundle",
        version="1.3.1",
        sha256="ec0a91c0cf6c1da46c7175b7778e3207395eca10272d891fa49770ec7a780162",
        size=46_120_921,
    ),
)
