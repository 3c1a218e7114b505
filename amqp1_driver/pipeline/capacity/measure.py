# SPDX-License-Identifier: Apache-2.0

"""Real runs of ``amqp1 bench``, to calibrate costs and to check predictions. Main thread."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from amqp1_driver.bench import plan
from amqp1_driver.bench.plan import Scenario
from amqp1_driver.pipeline.capacity.setup import Setup

if TYPE_CHECKING:
    from amqp1_driver.bench.profile.session import Recorder

#: runs for calibration: one client, one server; two of them at a rate, for the cost of pauses
CALIBRATION = (
    Scenario("call", threads=1),
    Scenario("call", threads=8),
    Scenario("call", threads=64),
    Scenario("call", threads=8, size=16 << 10),
    Scenario("call", threads=8, rate=250.0),
    Scenario("call", threads=8, rate=100.0),
)
#: runs that a check predicts: other numbers of threads and processes, other payloads, a rate
CHECKS = (
    Scenario("call", threads=4),
    Scenario("call", threads=24),
    Scenario("call", threads=16, size=4 << 10),
    Scenario("call", threads=8, clients=2),
    Scenario("call", threads=16, servers=2),
    Scenario("call", threads=16, rate=500.0),
)
#: figures of a point: throughput in calls per second, all others in microseconds
FIGURES = ("throughput", "p50", "p90", "p99", "client_cpu", "router_cpu", "server_cpu")


@dataclass(frozen=True, slots=True)
class Point:
    """A measured scenario: the medians of its rounds.

    :param figures: see ``FIGURES``; "others" is the number of cores that other processes used
    :param spread: lowest and highest round of each figure
    """

    scenario: Scenario
    figures: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rounds: int = 1

    def document(self) -> dict[str, Any]:
        """Return the point as a JSON document."""
        return asdict(self)


def points(runs: Sequence[tuple[Scenario, Mapping[str, Any]]]) -> list[Point]:
    """Combine all runs of each scenario into a point, in the order of the first runs.

    :param runs: results of ``amqp1_driver.bench.run.measure``
    :raises ValueError: a run lost messages, or the bus's processor time is not known
    """
    together: dict[Scenario, list[dict[str, float]]] = {}
    for scenario, run in runs:
        together.setdefault(scenario, []).append(_figures(scenario, run))
    return [
        Point(
            scenario,
            {name: statistics.median(run[name] for run in found) for name in found[0]},
            {
                name: (min(run[name] for run in found), max(run[name] for run in found))
                for name in found[0]
            },
            len(found),
        )
        for scenario, found in together.items()
    ]


def _figures(scenario: Scenario, run: Mapping[str, Any]) -> dict[str, float]:
    if run["failed"] or run["lost"]:
        raise ValueError(f"{scenario.title}: {run['failed']} calls failed, {run['lost']} were lost")
    if run["cpu_us"]["bus"] is None:
        raise ValueError("the processor time of the bus is not known: name its process, --bus-pid")
    latency, cpu = run["latency_us"], run["cpu_us"]
    return {
        "throughput": run["sent_per_s"],
        "p50": latency["p50"],
        "p90": latency["p90"],
        "p99": latency["p99"],
        "client_cpu": cpu["client"],
        "router_cpu": cpu["bus"],
        "server_cpu": cpu["server"],
        "others": run.get("others", 0.0),
    }


def of_document(document: Mapping[str, Any]) -> list[Point]:
    """Create points from a result of ``amqp1 bench --json``: the first driver of each scenario.

    A scenario that names no payload is of a release that knew only bytes.

    :raises ValueError: the document is not such a result
    """
    try:
        runs = [
            (Scenario(**{name: found[name] for name in Scenario.__dataclass_fields__}), run)
            for found in ({"payload": "bytes", **written} for written in document["scenarios"])
            if found["operation"] == "call"
            for run in found["entries"][0]["runs"]
            if "trouble" not in run
        ]
        return points(runs)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a result of amqp1 bench --json: {error!r}") from None


def setup(point: Point, cores: int, lanes: int = 1, executor: int = 64) -> Setup:
    """Return the setup that simulates a measured point, with the use by other processes.

    :param cores: number of cores of the machine that runs all processes
    :param lanes: threads of the bus
    :param executor: threads of a server
    """
    scenario = point.scenario
    others = min(point.figures.get("others", 0.0), 0.9 * cores)
    return Setup(
        threads=scenario.threads,
        clients=scenario.clients,
        servers=scenario.servers,
        size=scenario.size,
        reply=-1 if scenario.reply is None else scenario.reply,
        rate=scenario.rate,
        cores=cores,
        others=others,
        router_threads=lanes,
        executor=executor,
    )


class Watch:
    """A recorder for the benchmark that measures the idle time of the machine during a run."""

    def __init__(self) -> None:
        self._began = self._ended = (0.0, 0.0)

    def begin(self, *_: Any) -> None:
        """Note the time and the idle time when the run begins."""
        self._began = (time.monotonic(), _idle())

    def end(self, _: Any) -> None:
        """Note the time and the idle time when all messages have arrived."""
        self._ended = (time.monotonic(), _idle())

    def close(self) -> None:
        """Do nothing; the benchmark calls close() on every recorder."""

    def others(self, run: Mapping[str, Any]) -> float:
        """Return the mean number of cores that processes outside the run used.

        :returns: 0.0 if the idle time is not known
        """
        cpu = run["cpu_us"]
        ours: float = (cpu["client"] or 0.0) * (run["sent"] + run["failed"])
        ours += ((cpu["server"] or 0.0) + (cpu["bus"] or 0.0)) * run["received"]
        span, idle = (end - begin for begin, end in zip(self._began, self._ended, strict=True))
        if not span or not math.isfinite(idle):
            return 0.0
        return max(0.0, (os.cpu_count() or 1) - (idle + ours / 1e6) / span)


def _idle() -> float:
    """Return the seconds that all cores together have been idle (Linux); infinity elsewhere.

    Linux measures the idle time by the clock. The busy time would be wrong here: Linux samples 250
    times a second which process has the core; work that a timer starts 500 times a second makes
    these samples arbitrary. They showed 0.3 cores of other processes where there were none.
    """
    try:
        fields = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
    except OSError:
        return math.inf
    ticks: int = os.sysconf("SC_CLK_TCK")
    return sum(map(int, fields)) / ticks


@dataclass(frozen=True, slots=True)
class Lab:
    """The place and the conditions of real runs.

    :param bus: embedded bus to start, see ``amqp1 bench --bus``; ignored if ``url`` has a host
    :param url: of the bus; "amqp:" stands for the embedded bus
    :param bus_pid: process of the bus; None: the benchmark finds it
    :param seconds: duration of a run
    :param rounds: runs of each scenario that count
    :param others: cores that other processes may use during a run; the lab repeats a run with more,
        as long as there are ``spare`` runs, and in the end the quietest runs count
    :param spare: further runs of each scenario, in addition to the rounds
    :param far: URL of a second router of the same mesh
    :param kept: file to which the lab adds each run as a line of JSON; the runs that are in the
        file already and had the same conditions (bus, URL, seconds, lanes) count as made
    :param lanes: threads of the bus
    """

    bus: str = "router"
    url: str = "amqp:"
    bus_pid: int | None = None
    seconds: float = 3.0
    rounds: int = 3
    others: float = 0.15
    spare: int = 2
    far: str = ""
    kept: str = ""
    lanes: int = 1

    def run(
        self, scenarios: Sequence[Scenario], say: Callable[[str], None] = lambda _: None
    ) -> list[Point]:
        """Measure all scenarios, round by round, so that disturbances affect all of them alike.

        :raises Trouble: a run failed
        :raises ValueError: a line of the file ``kept`` is not a run
        """
        found: dict[Scenario, list[dict[str, Any]]] = {each: [] for each in scenarios}
        for scenario, run in self._before():
            if scenario in found:
                found[scenario].append(run)
        with self._bus() as address:
            for number in range(self.rounds + self.spare):
                for scenario in scenarios:
                    if self._enough(found[scenario]):
                        continue
                    run = self._one(scenario, address)
                    found[scenario].append(run)
                    self._keep(scenario, run)
                    say(
                        f"round {number + 1}: {scenario.title}: {run['sent_per_s']:.0f}/s, "
                        f"p99 {run['latency_us']['p99'] / 1e3:.2f} ms, others use "
                        f"{run['others']:.2f} cores"
                    )
        quiet = {
            each: sorted(runs, key=lambda run: float(run["others"]))[: self.rounds]
            for each, runs in found.items()
        }
        return points([(each, run) for each, runs in quiet.items() for run in runs])

    def _before(self) -> Iterator[tuple[Scenario, dict[str, Any]]]:
        if self.kept and Path(self.kept).exists():
            for line in Path(self.kept).read_text(encoding="utf-8").splitlines():
                try:
                    found = json.loads(line)
                    scenario, run = Scenario(**found["scenario"]), found["run"]
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{self.kept} has a line that is no run: {error}") from None
                # A line of an older version has no conditions: its run does not count.
                if found.get("lab") == self._conditions():
                    yield scenario, run

    def _conditions(self) -> dict[str, Any]:
        """Return the conditions on which the figures of a run depend, without secrets."""
        entry = plan.entry(self.url)
        return {
            "bus": self.bus if entry.needs_bus else None,
            "url": entry.shown,
            "seconds": self.seconds,
            "lanes": self.lanes,
        }

    def _keep(self, scenario: Scenario, run: Mapping[str, Any]) -> None:
        if self.kept:
            with open(self.kept, "a", encoding="utf-8") as file:
                line = {"scenario": asdict(scenario), "lab": self._conditions(), "run": run}
                file.write(json.dumps(line) + "\n")

    def _enough(self, runs: Sequence[Mapping[str, Any]]) -> bool:
        return sum(float(run["others"]) <= self.others for run in runs) >= self.rounds

    def pair(
        self,
        scenario: Scenario,
        say: Callable[[str], None] = lambda _: None,
    ) -> tuple[Point, Point]:
        """Measure a scenario with client and server on one router and on two, in turn.

        :returns: the point for one router, and the point for two
        """
        runs: dict[str, list[dict[str, Any]]] = {"": [], self.far: []}
        for number in range(self.rounds):
            for far, found in runs.items():
                found.append(self._one(scenario, "", far))
                say(
                    f"round {number + 1}: {scenario.title}, {'two routers' if far else 'one'}: "
                    f"p50 {found[-1]['latency_us']['p50'] / 1e3:.3f} ms"
                )
        [near], [away] = (points([(scenario, run) for run in found]) for found in runs.values())
        return near, away

    def _one(self, scenario: Scenario, address: str, far: str = "") -> dict[str, Any]:
        from amqp1_driver.bench.run import Limits, Place, measure

        place = Place(address, self.bus_pid, far=far)
        timed = Scenario(**{**asdict(scenario), "seconds": self.seconds})
        watch = Watch()
        run = measure(
            plan.entry(self.url), timed, place, Limits(warmup=0.5), recorder=cast("Recorder", watch)
        )
        run["others"] = watch.others(run)
        return run

    @contextlib.contextmanager
    def _bus(self) -> Iterator[str]:
        from amqp1_driver.bench import buses

        if not plan.entry(self.url).needs_bus:
            yield ""
            return
        with buses.started(self.bus) as bus:
            yield bus.address


def origin(lab: str) -> dict[str, Any]:
    """Describe where and when costs were measured.

    :param lab: the bus, in words
    """
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "bus": lab,
        "commit": _commit(),
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            text=True,
            check=True,
            cwd=Path(__file__).parent,
            capture_output=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        import importlib.metadata

        return importlib.metadata.version("amqp1-driver")
    return done.stdout.strip()


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
