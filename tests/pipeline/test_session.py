# SPDX-License-Identifier: Apache-2.0

"""How Spark is started; each in a process of its own, for Spark starts once in each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.pipeline.crash import processes

START = """
from amqp1_driver.pipeline.session import SparkMissing, spark_session
try:
    print(spark_session("test").range(3).count())
except SparkMissing as error:
    print(error)
"""


def _start(**environment: str) -> str:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START],
        text=True,
        timeout=100,
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    return found.stdout.strip()


def test_a_java_that_does_not_start_is_named(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    assert _start(JAVA_HOME=str(tmp_path)) == (
        "Java has ended before Spark ran; what it says is above. It has to be Java 17 or newer, "
        "in PATH or by JAVA_HOME"
    )


def test_nothing_is_left_of_a_start_that_is_interrupted(tmp_path: Path) -> None:
    """The script that starts Java, and Java itself."""
    told = tmp_path / "told"
    os.mkfifo(told)
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntrap '' INT TERM\nsleep 600 &\necho $$ $! > {told}\nwait\n")
    script.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", START],
        env={**os.environ, "SPARK_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    pids = [int(pid) for pid in told.read_text().split()]
    try:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "KeyboardInterrupt" in errors
        assert [processes.gone(pid, 20) for pid in pids] == [True, True]
    finally:
        for pid in pids:
            processes.kill(pid)


def test_python_without_spark_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError(\"No module named 'pyspark'\")\n")
    assert _start(PYTHONPATH=str(tmp_path)) == (
        "No module named 'pyspark': the pipeline needs \"pip install amqp1-driver[spark]\" and "
        "Java 17"
    )
