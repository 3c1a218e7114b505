# SPDX-License-Identifier: Apache-2.0

"""A standalone cluster of Spark on 127.0.0.1, out of the pyspark package itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home

from tests.bars.ports import lasting_port

WAIT = 60.0
#: of master and workers, which do little
DAEMON_MEMORY = "128m"
#: of Java, whose processes do not live long here
LITTLE_COMPILED = "-XX:TieredStopAtLevel=1"


class Daemon:
    """A master or a worker; ready when it has printed a line with certain words.

    :param log: file for what it prints
    """

    def __init__(self, command: list[str], ready: str, log: Path) -> None:
        self.log = log
        self._ready, self._seen = ready, threading.Event()
        environment = {
            **os.environ,
            "SPARK_HOME": _find_spark_home(),
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": LITTLE_COMPILED,
        }
        self.process = subprocess.Popen(
            [str(Path(_find_spark_home(), "bin", "spark-class")), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("w") as log, self.process.stdout as lines:
            for line in lines:
                log.write(line)
                log.flush()
                if self._ready in line:
                    self._seen.set()
        self._seen.set()  # it has ended: nobody need wait any more

    def wait(self) -> None:
        """Until it is ready.

        :raises RuntimeError: it has ended, or does not become ready
        """
        if not self._seen.wait(WAIT) or self.process.poll() is not None:
            raise RuntimeError(f"{self.log.name}: {self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """SIGTERM; a worker ends its executors."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self._thread.join(20)


class Cluster:
    """One master and some workers with one core each. A context manager.

    :param folder: for logs, and for the workers' own files
    :param memory: that a worker offers to executors
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "512m") -> None:
        self.folder = folder
        self.url = ""
        self._workers, self._memory = workers, memory
        self._daemons: list[Daemon] = []

    def __enter__(self) -> Cluster:
        try:
            port = str(lasting_port())
            self.url = f"spark://127.0.0.1:{port}"
            self._start("master", "I have been elected leader", "master.Master", "--port", port)
            for daemon in self._daemons:
                daemon.wait()
            for number in range(self._workers):
                self._start(
                    f"worker-{number}",
                    "Successfully registered with master",
                    "worker.Worker",
                    "--port",
                    "0",
                    "--cores",
                    "1",
                    "--memory",
                    self._memory,
                    "--work-dir",
                    str(self.work(number)),
                    self.url,
                )
            for daemon in self._daemons:
                daemon.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.stop()

    def _start(self, name: str, ready: str, kind: str, *arguments: str) -> None:
        self._daemons.append(
            Daemon(
                [
                    f"org.apache.spark.deploy.{kind}",
                    "--host",
                    "127.0.0.1",
                    "--webui-port",
                    "0",
                    *arguments,
                ],
                ready,
                self.folder / f"{name}.log",
            )
        )

    def work(self, number: int) -> Path:
        """Where a worker keeps what its executors print."""
        return self.folder / f"work-{number}"

    def tasks(self, number: int) -> int:
        """How many tasks the executors of a worker have finished, by what they print."""
        return sum(
            path.read_text(errors="replace").count("Finished task")
            for path in self.work(number).glob("app-*/*/stderr")
        )

    def submit(
        self, program: Path, *arguments: str, timeout: float, **conf: Any
    ) -> subprocess.CompletedProcess[str]:
        """spark-submit, in client mode; dots of names in ``conf`` as underscores."""
        settings = {
            "spark_executor_memory": self._memory,
            "spark_executor_cores": 1,
            "spark_driver_memory": "512m",
            "spark_ui_enabled": "false",
            "spark_driver_host": "127.0.0.1",
            "spark_driver_extraJavaOptions": LITTLE_COMPILED,
            "spark_executor_extraJavaOptions": LITTLE_COMPILED,
            **conf,
        }
        command = [str(Path(_find_spark_home(), "bin", "spark-submit")), "--master", self.url]
        for name, value in settings.items():
            command += ["--conf", f"{name.replace('_', '.')}={value}"]
        environment = {
            **os.environ,
            "SPARK_HOME": _find_spark_home(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return subprocess.run(
            [*command, str(program), *arguments],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
