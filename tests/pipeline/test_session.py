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

"""How Spark is started; each in a process of its own, for Spark starts once in each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

START = """
from amqp1_driver.pipeline.session import SparkMissing, spark_session
try:
    print(spark_session("test").range(3).count())
except SparkMissing as error:
    print(error)
"""


def _start(**environment: str) -> str:
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", START], text=True, timeout=100,
                           env={**os.environ, **environment}, capture_output=True, check=True)
    return found.stdout.strip()


def test_a_java_that_does_not_start_is_named(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    assert _start(JAVA_HOME=str(tmp_path)) == (
        "Java has ended before Spark ran; what it says is above. It has to be Java 17 or newer, "
        "in PATH or by JAVA_HOME")


def test_python_without_spark_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError(\"No module named 'pyspark'\")\n")
    assert _start(PYTHONPATH=str(tmp_path)) == (
        "No module named 'pyspark': the pipeline needs \"pip install amqp1-driver[spark]\" and "
        "Java 17")
