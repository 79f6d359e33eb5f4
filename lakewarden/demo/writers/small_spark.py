"""The Spark of a demo's writer: one core, one gigabyte, everything on the loopback interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from lakewarden.executors.worker import java


def small_spark(jars: Iterable[Path], conf: Mapping[str, str]) -> SparkSession:
    """Start it with jars on its class path and further settings. Its JVM keeps time in UTC."""
    os.environ["JAVA_HOME"] = str(java.java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    whole = {
        "spark.master": "local[1]",
        "spark.app.name": "demo-writer",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java.LIGHT}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    context = SparkContext(conf=SparkConf().setAll(list(whole.items())))
    context.setLogLevel("WARN")
    return SparkSession(context)
