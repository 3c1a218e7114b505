# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Spark sessions of the jobs: small and quiet on a laptop, the cluster's own by spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: where no master is given and spark-submit gives none
LOCAL = "local[2]"
#: set by spark-submit: where its JVM listens
SUBMITTED = "PYSPARK_GATEWAY_PORT"
#: of every session
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
}
#: of a local session only: a cluster's administrator has settled these
LOCAL_SETTINGS = {
    # with Spark's own 1 GiB a third of the time goes into collecting garbage
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


class SparkMissing(RuntimeError):
    """PySpark or what goes with it is not installed."""


def spark_session(name: str, master: str | None = None,
                  extra: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process, with the data source ``amqp1`` registered.

    :param name: of the application
    :param master: Spark's master URL; None: what spark-submit set, else ``local[2]``
    :param extra: further settings of Spark; they win
    :raises SparkMissing: the extra ``spark`` is not installed, or Java does not start
    """
    # Workers would take whatever python3 comes first in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        from amqp1_driver.pipeline.source import Amqp1DataSource
    except ImportError as error:
        raise SparkMissing(
            f"{error}: the pipeline needs \"pip install amqp1-driver[spark]\" and Java 17"
        ) from error

    if SUBMITTED in os.environ:
        # Until it is connected to the JVM that spark-submit has started, SparkConf() is empty: the
        # master and all else from the command line would not be seen, and be overruled.
        SparkContext._ensure_initialized()
    conf = SparkConf()
    master = master or conf.get("spark.master") or LOCAL
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings.update(LOCAL_SETTINGS)
        # Else Java looks up the machine's own name, which not every machine can resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings.update(extra or {})
    # What was given on the command line of spark-submit is in conf already, and wins over ours.
    for key, value in settings.items():
        if key in (extra or {}) or not conf.contains(key):
            conf.set(key, value)
    try:
        spark = SparkSession.builder.appName(name).master(master).config(conf=conf).getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkMissing("Java has ended before Spark ran; what it says is above. It has to be "
                           "Java 17 or newer, in PATH or by JAVA_HOME") from error
    spark.dataSource.register(Amqp1DataSource)
    return spark
