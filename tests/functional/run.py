# SPDX-License-Identifier: Apache-2.0

"""Runs oslo.messaging's own functional suite, as its wheel has it, against this driver.

    python -m tests.functional.run --suite 18.3 --bus router --scheme amqp --threads native
    python -m tests.functional.run --matrix short

Every run gets a bus of its own, so that nothing is left over from the run before. A run passes
when all tests pass but those that upstream itself skips for the scheme (suites.UPSTREAM_SKIPS), no
other test is skipped, and none is missing. Logs lie in .functional/ below the checkout.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from tests.functional import buses, matrix, results, suites, venvs

TOP = pathlib.Path(__file__).resolve().parents[2]
WORKER = pathlib.Path(__file__).with_name("worker.py")
LOGS = TOP / ".functional"

#: Most tests wait most of the time: more workers than cores.
WORKERS = 8
#: A test that takes longer is ended with its worker.
TEST_SECONDS = 120.0
#: Until a worker has imported the suite.
START_SECONDS = 120.0
#: The suite's metrics test starts "python3 -m oslo_metrics", which listens here.
METRICS_PORT = 3000


class Worker:
    """One process that runs tests one after the other; driven by one thread of ours."""

    def __init__(self, command: list[str], environment: dict[str, str], log: pathlib.Path) -> None:
        self._log = log.open("ab")
        # A session of its own: what a test starts and leaves behind is ended with it.
        self._process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            text=True,
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """The next line, or None when the process ended or took longer."""
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            return None
        return json.loads(line) if line else None

    def run(self, test: str) -> dict[str, Any] | None:
        try:
            self._process.stdin.write(test + "\n")
            self._process.stdin.flush()
        except OSError:
            return None
        return self.answer(TEST_SECONDS)

    def close(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._log.close()


@dataclasses.dataclass
class Report:
    """What one run came to."""

    run: matrix.Run
    passed: int = 0
    skipped: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    #: what the bus calls itself
    product: str = ""
    tests: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        word = "ok    " if self.ok else "FAILED"
        counts = f"{self.passed} passed, {len(self.problems)} failed, {self.skipped} skipped"
        return f"{word} {self.run!s:<42} {counts} in {self.seconds:.0f} s"


def judge(report: Report, results: dict[str, dict[str, Any]], only: str | None) -> None:
    """Hold the outcomes against what upstream skips for this scheme."""
    expected = suites.UPSTREAM_SKIPS[report.run.scheme]
    for test, result in sorted(results.items()):
        outcome, detail = result["outcome"], result["detail"]
        name = test.removeprefix(suites.PACKAGE + ".")
        if outcome == "failed":
            last = detail.strip().splitlines()[-1:] or [""]
            report.problems.append(f"{name}: {last[0][:200]}")
        elif outcome == "skipped" and expected.get(test) != detail:
            report.problems.append(f"{name}: skipped, which upstream does not do: {detail}")
        elif outcome == "passed" and test in expected:
            report.problems.append(f"{name}: ran, although upstream skips it: table out of date")
        elif outcome == "skipped":
            report.skipped += 1
        else:
            report.passed += 1
    if only is None and len(results) != suites.TOTAL:
        report.problems.append(f"{len(results)} tests instead of {suites.TOTAL}")


class Session:
    """Runs of the suite with one build of the driver."""

    def __init__(
        self, site: pathlib.Path, workers: int, only: str | None, identify: bool = False
    ) -> None:
        self._site, self._workers, self._only = site, workers, only
        self._identify = identify

    def execute(self, run: matrix.Run) -> Report:
        report, since = Report(run), time.monotonic()
        logs = LOGS / re.sub(r"[^\w.+-]", "_", str(run))
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        try:
            python = venvs.python_for(suites.SUITES[run.suite])
            with buses.running(run.bus, logs / "bus.log") as address:
                if self._identify:
                    report.product = results.identity(address)
                found = self._tests(run, python, address, logs)
            report.tests = list(found.values())
            (logs / "results.json").write_text(json.dumps(report.tests, indent=1))
            judge(report, found, self._only)
        except (buses.BusError, subprocess.CalledProcessError, OSError) as error:
            report.problems.append(str(error))
        report.seconds = time.monotonic() - since
        return report

    def _environment(self, run: matrix.Run, python: pathlib.Path, address: str) -> dict[str, str]:
        url = f"{run.scheme}://{address}"
        # The venv first: the metrics test starts the "python3" of PATH.
        path = os.pathsep.join((str(python.parent), os.environ.get("PATH", os.defpath)))
        return {
            **{k: v for k, v in os.environ.items() if k not in ("TRANSPORT_DRIVER", "VIRTUAL_ENV")},
            "PATH": path,
            "PYTHONPATH": str(self._site),
            "RPC_TRANSPORT_URL": url,
            "NOTIFY_TRANSPORT_URL": url,
            "OS_LOG_CAPTURE": "1",
        }

    def _tests(
        self, run: matrix.Run, python: pathlib.Path, address: str, logs: pathlib.Path
    ) -> dict[str, dict[str, Any]]:
        command = [str(python), str(WORKER), run.threads]
        environment = self._environment(run, python, address)

        def start(number: int) -> Worker:
            return Worker(command, environment, logs / f"worker-{number}.log")

        workers = [start(number) for number in range(self._workers)]
        try:
            tests = self._load(workers)
            if tests is None:
                raise OSError(f"the suite does not load, see {logs / 'worker-0.log'}")
            chance = suites.SHARED_BY_CHANCE.get(run.bus, {})
            found = _spread([test for test in tests if test not in chance], workers, start)
            for test in (test for test in tests if test in chance):
                found |= _repeat(test, chance[test], workers, start)
            return found
        finally:
            for worker in workers:
                worker.close()

    def _load(self, workers: list[Worker]) -> list[str] | None:
        """The tests to run, slow ones first, when all workers are ready for them."""
        tests: list[str] = []
        for worker in workers:
            ready = worker.answer(START_SECONDS)
            if ready is None:
                return None
            tests = ready["tests"]
        if self._only is not None:
            tests = [test for test in tests if re.search(self._only, test)]
        return sorted(tests, key=lambda test: (not any(s in test for s in suites.SLOW), test))


def _spread(tests: list[str], workers: list[Worker], start: Any) -> dict[str, dict[str, Any]]:
    """Hand out *tests* to *workers*; a worker that died or hung is replaced in the list."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for test in tests:
        waiting.put(test)
    results: dict[str, dict[str, Any]] = {}

    def serve(number: int) -> None:
        while True:
            try:
                test = waiting.get_nowait()
            except queue.Empty:
                return
            result = workers[number].run(test)
            if result is None:
                detail = f"the process died or the test took over {TEST_SECONDS:.0f} s, see the log"
                result = {"id": test, "outcome": "failed", "detail": detail, "seconds": 0}
                workers[number].close()
                workers[number] = start(number)
                workers[number].answer(START_SECONDS)
            results[test] = result

    threads = [threading.Thread(target=serve, args=(n,)) for n in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _repeat(
    test: str, excused: str, workers: list[Worker], start: Any
) -> dict[str, dict[str, Any]]:
    """Run *test* alone, again while its last line is *excused*, at most suites.TRIES times."""
    for attempt in range(1, suites.TRIES + 1):
        results = _spread([test], workers, start)
        last = results[test]["detail"].strip().splitlines()[-1:]
        if results[test]["outcome"] != "failed" or last != [excused]:
            break
        print(f"       - {test}: {excused} at try {attempt} of {suites.TRIES}", flush=True)
    return results


def _metrics_port_free() -> bool:
    import socket

    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", METRICS_PORT))
        except OSError:
            return False
    return True


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.functional.run")
    parser.add_argument("--matrix", choices=sorted(matrix.FORMS), help="all runs of this form")
    parser.add_argument("--suite", choices=sorted(suites.SUITES), default="18.3")
    parser.add_argument(
        "--bus",
        default="router",
        help="router, broker, rabbitmq-4.3, rabbitmq-4.0, artemis, broker-j, or a name"
        " given in AMQP1_TEST_BUSES=name=url,...",
    )
    parser.add_argument("--scheme", choices=sorted(suites.UPSTREAM_SKIPS), default="amqp")
    parser.add_argument("--threads", choices=matrix.THREADS, default="native")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes (%(default)s)")
    parser.add_argument("--only", metavar="REGEX", help="only the tests whose id matches")
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        metavar="FILE.json",
        help="put the outcomes there as well, for tests.functional.report",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.matrix:
        runs = matrix.FORMS[args.matrix]
    else:
        runs = (matrix.Run(args.suite, args.bus, args.scheme, args.threads),)
    if not _metrics_port_free():
        print(f"port {METRICS_PORT} is taken: the suite's metrics test needs it and will fail")
    reports = []
    with tempfile.TemporaryDirectory(prefix="amqp1-functional-") as folder:
        session = Session(
            venvs.install_driver(pathlib.Path(folder)),
            args.workers,
            args.only,
            identify=args.results is not None,
        )
        for run in runs:
            report = session.execute(run)
            reports.append(report)
            print(report, flush=True)
            if args.results is not None and report.tests:
                results.store(
                    args.results,
                    results.entry(
                        "suite",
                        run.bus,
                        report.product,
                        report.tests,
                        suite=run.suite,
                        scheme=run.scheme,
                        threads=run.threads,
                    ),
                )
            for problem in report.problems:
                print(f"       - {problem}", flush=True)
    failed = sum(not report.ok for report in reports)
    print(f"functional suite: {len(reports) - failed} runs passed, {failed} failed; logs in {LOGS}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
