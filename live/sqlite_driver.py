"""The driver that Spark and Flink need for a catalog in SQLite. Lakewarden does not bundle it: the operator of such a
catalog provides it.
"""

from __future__ import annotations

from lakewarden.executors.on_spark import Bundle

SQLITE = Bundle(
    group="org.xerial",
    artifact="sqlite-jdbc",
    version="3.46.1.3",
    sha256="4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa",
    size=14_127_503,
)
