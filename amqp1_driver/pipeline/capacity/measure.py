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

"""Real runs of ``amqp1 bench``: those that costs are made of, and those that are predicted."""

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
    from amqp1_driver.bench.profile.record import Recorder

#: what costs are made of: one client, one server; at two rates, to see what a pause costs
CALIBRATION = (
    Scenario("call", threads=1),
    Scenario("call", threads=8),
    Scenario("call", threads=64),
    Scenario("call", threads=8, size=16 << 10),
    Scenario("call", threads=8, rate=250.0),
    Scenario("call", threads=8, rate=100.0),
)
#: what is predicted: other threads, processes, payloads, and a rate
CHECKS = (
    Scenario("call", threads=4),
    Scenario("call", threads=24),
    Scenario("call", threads=16, size=4 << 10),
    Scenario("call", threads=8, clients=2),
    Scenario("call", threads=16, servers=2),
    Scenario("call", threads=16, rate=500.0),
)
#: microseconds; and calls per second
FIGURES = ("throughput", "p50", "p90", "p99", "client_cpu", "router_cpu", "server_cpu")


@dataclass(frozen=True, slots=True)
class Point:
    """One scenario as it was measured: medians of its rounds.

    :param figures: see ``FIGURES``
    :param spread: of each, the lowest and the highest round
    """

    scenario: Scenario
    figures: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rounds: int = 1

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def points(runs: Sequence[tuple[Scenario, Mapping[str, Any]]]) -> list[Point]:
    """One for each scenario, of all its runs, in the order of the first ones.

    :param runs: as ``amqp1_driver.bench.run.measure`` gives them
    :raises ValueError: a run lost messages, or the bus's processor time is not known
    """
    together: dict[Scenario, list[dict[str, float]]] = {}
    for scenario, run in runs:
        together.setdefault(scenario, []).append(_figures(scenario, run))
    return [
        Point(scenario,
              {name: statistics.median(run[name] for run in found) for name in found[0]},
              {name: (min(run[name] for run in found), max(run[name] for run in found))
               for name in found[0]}, len(found))
        for scenario, found in together.items()
    ]


def _figures(scenario: Scenario, run: Mapping[str, Any]) -> dict[str, float]:
    if run["failed"] or run["lost"]:
        raise ValueError(f"{scenario.title}: {run['failed']} calls failed, {run['lost']} were lost")
    if run["cpu_us"]["bus"] is None:
        raise ValueError("the processor time of the bus is not known: name its process, --bus-pid")
    latency, cpu = run["latency_us"], run["cpu_us"]
    return {"throughput": run["sent_per_s"], "p50": latency["p50"], "p90": latency["p90"],
            "p99": latency["p99"], "client_cpu": cpu["client"], "router_cpu": cpu["bus"],
            "server_cpu": cpu["server"], "others": run.get("others", 0.0)}


def of_document(document: Mapping[str, Any]) -> list[Point]:
    """From what ``amqp1 bench --json`` wrote; the first driver of each scenario."""
    try:
        runs = [
            (Scenario(**{name: found[name] for name in Scenario.__dataclass_fields__}), run)
            for found in document["scenarios"] if found["operation"] == "call"
            for run in found["entries"][0]["runs"] if "trouble" not in run
        ]
        return points(runs)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a result of amqp1 bench --json: {error!r}") from None


def setup(point: Point, cores: int, lanes: int = 1, executor: int = 64) -> Setup:
    """The same for the model, with what other processes used meanwhile.

    :param cores: of the machine that runs all of it
    :param lanes: threads of the bus
    """
    scenario = point.scenario
    others = min(point.figures.get("others", 0.0), 0.9 * cores)
    return Setup(threads=scenario.threads, clients=scenario.clients, servers=scenario.servers,
                 size=scenario.size, reply=-1 if scenario.reply is None else scenario.reply,
                 rate=scenario.rate, cores=cores, others=others, router_threads=lanes,
                 executor=executor)


class Watch:
    """Processor time of the whole machine while a run is measured; a recorder for the benchmark."""

    def __init__(self) -> None:
        self._began = self._ended = (0.0, 0.0)

    def begin(self, *_: Any) -> None:
        """The run begins."""
        self._began = (time.monotonic(), _idle())

    def end(self, _: Any) -> None:
        """All messages are there."""
        self._ended = (time.monotonic(), _idle())

    def close(self) -> None:
        """Nothing is left open."""

    def others(self, run: Mapping[str, Any]) -> float:
        """Cores that were used by none of the run's processes."""
        cpu = run["cpu_us"]
        ours: float = (cpu["client"] or 0.0) * (run["sent"] + run["failed"])
        ours += ((cpu["server"] or 0.0) + (cpu["bus"] or 0.0)) * run["received"]
        span, idle = (end - begin for begin, end in zip(self._began, self._ended, strict=True))
        if not span or not math.isfinite(idle):
            return 0.0
        return max(0.0, (os.cpu_count() or 1) - (idle + ours / 1e6) / span)


def _idle() -> float:
    """Seconds that cores have been idle (Linux).

    Not those that they have been busy: Linux counts these by looking 250 times a second at who has
    the core, and with work that a timer begins 500 times a second that sees what it likes (0.3
    cores of others where there was nobody). The idle time is measured by the clock.
    """
    try:
        fields = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
    except OSError:
        return math.inf
    ticks: int = os.sysconf("SC_CLK_TCK")
    return sum(map(int, fields)) / ticks


@dataclass(frozen=True, slots=True)
class Lab:
    """Where real runs happen.

    :param bus: that is started, see ``amqp1 bench --bus``; without meaning if ``url`` has a host
    :param url: of the bus; "amqp:" is the one that is started
    :param seconds: of a run
    :param others: cores that other processes may use meanwhile; a run that they disturb more is
        made again, as long as there are ``spare`` runs, and in the end the quietest count
    :param spare: runs for each scenario beside the rounds
    :param far: URL of a second router of the same mesh
    :param kept: file that runs are added to, a line of JSON for each; those in it count as made
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

    def run(self, scenarios: Sequence[Scenario],
            say: Callable[[str], None] = lambda _: None) -> list[Point]:
        """Measure all, round by round, so that what else the machine does falls on all alike.

        :raises Trouble: a run came to nothing
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
                    say(f"round {number + 1}: {scenario.title}: {run['sent_per_s']:.0f}/s, "
                        f"p99 {run['latency_us']['p99'] / 1e3:.2f} ms, others use "
                        f"{run['others']:.2f} cores")
        quiet = {each: sorted(runs, key=lambda run: float(run["others"]))[: self.rounds]
                 for each, runs in found.items()}
        return points([(each, run) for each, runs in quiet.items() for run in runs])

    def _before(self) -> Iterator[tuple[Scenario, dict[str, Any]]]:
        if self.kept and Path(self.kept).exists():
            for line in Path(self.kept).read_text(encoding="utf-8").splitlines():
                try:
                    found = json.loads(line)
                    yield Scenario(**found["scenario"]), found["run"]
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{self.kept} has a line that is no run: {error}") from None

    def _keep(self, scenario: Scenario, run: Mapping[str, Any]) -> None:
        if self.kept:
            with open(self.kept, "a", encoding="utf-8") as file:
                file.write(json.dumps({"scenario": asdict(scenario), "run": run}) + "\n")

    def _enough(self, runs: Sequence[Mapping[str, Any]]) -> bool:
        return sum(float(run["others"]) <= self.others for run in runs) >= self.rounds

    def pair(self, scenario: Scenario, say: Callable[[str], None] = lambda _: None,
             ) -> tuple[Point, Point]:
        """The same with client and server on one router and on two, in turn."""
        runs: dict[str, list[dict[str, Any]]] = {"": [], self.far: []}
        for number in range(self.rounds):
            for far, found in runs.items():
                found.append(self._one(scenario, "", far))
                say(f"round {number + 1}: {scenario.title}, {'two routers' if far else 'one'}: "
                    f"p50 {found[-1]['latency_us']['p50'] / 1e3:.3f} ms")
        [near], [away] = (points([(scenario, run) for run in found]) for found in runs.values())
        return near, away

    def _one(self, scenario: Scenario, address: str, far: str = "") -> dict[str, Any]:
        from amqp1_driver.bench.run import Limits, Place, measure

        place = Place(address, self.bus_pid, far=far)
        timed = Scenario(**{**asdict(scenario), "seconds": self.seconds})
        watch = Watch()
        run = measure(plan.entry(self.url), timed, place, Limits(warmup=0.5),
                      recorder=cast("Recorder", watch))
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
    """Where and when costs come from.

    :param lab: the bus, in words
    """
    return {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "bus": lab,
            "commit": _commit(), "cpus": os.cpu_count(), "processor": _processor(),
            "platform": platform.platform(), "python": platform.python_version()}


def _commit() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], text=True, check=True,
                              cwd=Path(__file__).parent, capture_output=True, timeout=10)
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
