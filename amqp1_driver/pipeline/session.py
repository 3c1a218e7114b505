# SPDX-License-Identifier: Apache-2.0

"""The Spark session of a job, local or under spark-submit; on the main thread.

A local session is small and prints no progress. Under spark-submit the cluster's settings hold.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the master where neither the caller nor spark-submit names one
LOCAL = "local[2]"
#: environment variable that spark-submit sets: the port on which its JVM listens
SUBMITTED = "PYSPARK_GATEWAY_PORT"
#: settings of every session
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
}
#: settings of a local session only; on a cluster its administrator chooses them
LOCAL_SETTINGS = {
    # With Spark's default of 1 GiB, garbage collection takes a third of the time.
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


class SparkMissing(RuntimeError):
    """The error when PySpark, a package that it needs, or Java is missing."""


@contextlib.contextmanager
def _java_ends_with_us() -> Iterator[None]:
    """Kill the Java process that PySpark starts within the context, if ^C interrupts the start.

    Java reports its port through a file in a folder. On ^C, PySpark removes that folder, and Java
    then never ends. PySpark gives no access to the process until the start is over, so this
    function replaces ``Popen`` in PySpark's module for that time.
    """
    java_gateway: Any = importlib.import_module("pyspark.java_gateway")
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        # A process group of its own: spark-submit is a script, and killpg() ends its children.
        started.append(subprocess.Popen(command, process_group=0, **options))
        return started[-1]

    java_gateway.Popen = start
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise
    finally:
        java_gateway.Popen = subprocess.Popen


def spark_session(
    name: str, master: str | None = None, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of this process, with the data source ``amqp1`` registered.

    :param name: name of the application
    :param master: Spark's master URL; None: the one that spark-submit set, else ``local[2]``
    :param extra: further settings of Spark; they override all others
    :raises SparkMissing: the extra ``spark`` is not installed, or Java does not start
    """
    # Without this, workers would run the first python3 in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        from amqp1_driver.pipeline.source import Amqp1DataSource
    except ImportError as error:
        raise SparkMissing(
            f'{error}: the pipeline needs "pip install amqp1-driver[spark]" and Java 17'
        ) from error

    if SUBMITTED in os.environ:
        # SparkConf() is empty until SparkContext is connected to the JVM that spark-submit started.
        # The code below would then override the master and all settings of the command line.
        SparkContext._ensure_initialized()
    conf = SparkConf()
    master = master or conf.get("spark.master") or LOCAL
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings.update(LOCAL_SETTINGS)
        # Without this, Java looks up the machine's own name, which some machines cannot resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings.update(extra or {})
    # conf already holds the settings of spark-submit's command line, which override ours.
    for key, value in settings.items():
        if key in (extra or {}) or not conf.contains(key):
            conf.set(key, value)
    try:
        with _java_ends_with_us():
            builder = SparkSession.builder.appName(name).master(master).config(conf=conf)
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkMissing(
            "Java has ended before Spark ran; what it says is above. It has to be "
            "Java 17 or newer, in PATH or by JAVA_HOME"
        ) from error
    spark.dataSource.register(Amqp1DataSource)
    return spark
