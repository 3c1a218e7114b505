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

"""``amqp1 pipeline capacity``: how many agents a mesh of routers carries, by simulation.

Also by ``spark-submit``: it is a program of its own, with the same arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp1_driver.pipeline.capacity.costs import Costs
    from amqp1_driver.pipeline.capacity.measure import Lab, Point
    from amqp1_driver.pipeline.capacity.plan import Goal
    from amqp1_driver.pipeline.capacity.setup import Setup

#: configurations that have to be within the bar
NEEDED = 3

DESCRIPTION = """\
Simulates agents that call servers through a mesh of routers, many times on Spark, and tells how
many agents a mesh of n routers carries at a given 99th percentile of a call. Costs come from
measurements, see "calibrate"; how well they predict a real run tells "check".
"""
EPILOG = """\
examples:
  amqp1 pipeline capacity --routers 1,2,4,8,16 --p99-ms 50 --output DIR
  amqp1 pipeline capacity --routers 1,2,4 --agents 20000 --interval 5 --service-ms 20
  amqp1 pipeline capacity calibrate --output costs.json
  amqp1 pipeline capacity calibrate --url amqp://127.0.0.1:5672/ --lanes 4 --output costs.json
  amqp1 pipeline capacity check --calibrate --rounds 5
  spark-submit --master URL .../pipeline/commands/capacity.py --routers 1,2,4 --output DIR

Exit status: 0; 1 if something could not be done, or fewer than three configurations of a check are
within its bar; 2 for wrong arguments; 130 after ^C.
"""


def add_parser(subparsers: Any) -> None:
    """Describe the job."""
    describe(subparsers.add_parser(
        "capacity", help="how many agents a mesh of routers carries, by simulation",
        description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter))


def describe(parser: argparse.ArgumentParser) -> None:
    """Arguments of the sweep, and of the two others."""
    _sweep_arguments(parser)
    others = parser.add_subparsers(dest="action", metavar="{calibrate,check}",
                                   help="instead of the sweep; see their --help")
    calibrate = others.add_parser("calibrate", help="make a file of costs, by amqp1 bench")
    _lab_arguments(calibrate)
    calibrate.add_argument("--results", nargs="+", metavar="FILE",
                           help="of amqp1 bench --json, instead of measuring")
    calibrate.add_argument("--far", default="", metavar="URL",
                           help="a second router of the mesh of --url: a link's latency is "
                                "measured over it")
    calibrate.add_argument("--output", required=True, metavar="FILE", help="the file of costs")
    check = others.add_parser("check", help="hold the model against real runs of amqp1 bench")
    _lab_arguments(check)
    check.add_argument("--costs", default="embedded-router", metavar="NAME|FILE",
                       help="default: embedded-router")
    check.add_argument("--calibrate", action="store_true",
                       help="measure costs in the same rounds, from other configurations than "
                            "those predicted, instead of --costs")
    check.add_argument("--bar", type=float, default=25.0, metavar="PERCENT", help="default: 25")
    check.add_argument("--json", metavar="FILE", help="write what was measured and predicted")


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--costs", default="skupper-router", metavar="NAME|FILE", dest="sweep_costs",
        help="that come along, or a file of calibrate (default: skupper-router)")
    add("--routers", type=_numbers, default=(1, 2, 4, 8, 16), metavar="N,...",
        help="sizes of the mesh (default: 1,2,4,8,16)")
    add("--topology", choices=("full", "ring"), default="full", help="default: full")
    add("--router-threads", type=int, default=4, metavar="N", help="default: 4")
    add("--servers", type=int, default=4, metavar="N", help="processes for each router; default: 4")
    add("--executor", type=int, default=64, metavar="N", help="threads of a server; default: 64")
    add("--agents", type=int, default=100_000, metavar="N", help="at most; default: 100000")
    add("--interval", type=float, default=10.0, metavar="S",
        help="each agent calls so often; default: 10")
    add("--service-ms", type=float, default=5.0, metavar="MS",
        help="mean of what a call waits in the server, as for a database; default: 5")
    add("--service-cv", type=float, default=1.0, metavar="X",
        help="its coefficient of variation; 0 constant, 1 exponential (default)")
    add("--work-us", type=float, default=0.0, metavar="US",
        help="Python work of a call in the server; default: 0")
    add("--local", type=float, default=-1.0, metavar="SHARE",
        help="calls that a server at the agent's own router serves; default: 1/routers")
    add("--size", type=int, default=1024, metavar="B", help="of a request; default: 1024")
    add("--reply-size", type=int, default=-1, metavar="B", help="default: as the request")
    add("--network-us", type=float, default=100.0, metavar="US",
        help="one way between two machines; default: 100")
    add("--server-credit", type=int, default=100, metavar="N", help="default: 100")
    add("--timeout", type=float, default=60.0, metavar="S", help="of a call; default: 60")
    add("--p99-ms", type=float, default=100.0, metavar="MS", help="at most; default: 100")
    add("--calls", type=int, default=20_000, metavar="N", help="in a simulation; default: 20000")
    add("--seeds", type=int, default=3, metavar="N", help="simulations of each; default: 3")
    add("--full", action="store_true",
        help="simulate all routers, not one with its share of the agents")
    add("--output", metavar="DIR", help="write capacity.parquet, .json and .html", dest="folder")
    add("--master", metavar="URL", help="of Spark; default: spark-submit's, else local[2]")


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bus", choices=("router", "broker"), default="router",
        help="the embedded bus that is started (default: router)")
    add("--url", default="amqp:", help="of a bus that is there, amqp://HOST:PORT/")
    add("--bus-pid", type=int, metavar="PID", help="its process, if it can't be found by the URL")
    add("--lanes", type=int, default=1, metavar="N", help="threads of the bus; default: 1")
    add("--cores", type=int, default=os.cpu_count() or 1, metavar="N",
        help="of this machine; default: %(default)s")
    add("--rounds", type=int, default=5, metavar="N", help="of each configuration; default: 5")
    add("--seconds", type=float, default=3.0, metavar="S", help="of a run; default: 3")
    add("--others", type=float, default=0.15, metavar="CORES",
        help="a run during which other processes use more than this is made again; default: 0.15")
    add("--spare", type=int, default=3, metavar="N",
        help="further runs of a configuration at most for that; default: 3")
    add("--runs", metavar="FILE",
        help="add each run to this file; runs that are in it count as made")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status.

    :raises ValueError: arguments that can't be
    :raises SparkMissing: the extra ``spark`` is not installed
    """
    try:
        import simpy  # noqa: F401
    except ImportError as error:
        from amqp1_driver.pipeline.session import SparkMissing

        raise SparkMissing(
            f"{error}: the pipeline needs \"pip install amqp1-driver[spark]\""
        ) from error
    if args.action is None:
        return _sweep(args)
    from amqp1_driver.bench.children import Trouble

    try:
        return _calibrate(args) if args.action == "calibrate" else _check(args)
    except (Trouble, OSError) as error:
        print(f"amqp1 pipeline capacity {args.action}: {error}", file=sys.stderr)
        return 1


# -- the sweep -----------------------------------------------------------------------------------


def _sweep(args: argparse.Namespace) -> int:
    from amqp1_driver.pipeline.capacity import costs, plan
    from amqp1_driver.pipeline.session import spark_session

    known = costs.load(args.sweep_costs)
    goal = plan.Goal(args.p99_ms, 0.0, args.agents)
    base = _base(args)
    setups = plan.sizes(base, args.routers, args.servers)
    spark = spark_session("amqp1 capacity", args.master)
    try:
        simulated = _passes(spark, setups, known, goal, args.seeds)
        _publish(args, base, known, goal, setups, simulated, spark)
    finally:
        spark.stop()
    return 0


def _base(args: argparse.Namespace) -> Setup:
    from amqp1_driver.pipeline.capacity.setup import Setup

    if args.seeds < 1 or args.servers < 1:
        raise ValueError("--seeds and --servers are 1 or more")
    return Setup(
        topology=args.topology, router_threads=args.router_threads, executor=args.executor,
        agents=args.agents, interval_s=args.interval, size=args.size, reply=args.reply_size,
        service_us=args.service_ms * 1e3, service_cv=args.service_cv, work_us=args.work_us,
        local=args.local, network_us=args.network_us, server_credit=args.server_credit,
        timeout_s=args.timeout, calls=args.calls, warmup=args.calls // 5, fold=not args.full,
    )


def _passes(spark: Any, setups: Sequence[Setup], costs: Costs, goal: Goal,
            seeds: int) -> list[dict[str, Any]]:
    """All simulations of both passes."""
    from amqp1_driver.pipeline.capacity import plan
    from amqp1_driver.pipeline.capacity.sweep import sweep

    def done(rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [row.asDict() for row in sweep(spark, rows, costs).collect()]

    found = done(plan.first(setups, costs, goal, seeds))
    further = plan.second(setups, plan.judged(found, goal), seeds)
    return found + done(further) if further else found


def _publish(args: argparse.Namespace, base: Setup, costs: Costs, goal: Goal,
             setups: Sequence[Setup], simulated: Sequence[dict[str, Any]], spark: Any) -> None:
    from amqp1_driver.pipeline.capacity import page, plan
    from amqp1_driver.pipeline.report import as_text, write

    judged = plan.judged(simulated, goal)
    answers = plan.answers(setups, judged, costs, goal)
    print(as_text(page.answer_table(answers, goal)))
    if args.folder is None:
        return
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder.absolute() / "capacity.parquet")
    spark.createDataFrame(simulated).coalesce(1).write.mode("overwrite").parquet(target)
    _write(folder / "capacity.json", {
        "setup": base.row(), "goal": {"p99_ms": goal.p99_ms, "agents": goal.agents},
        "costs": costs.document(), "answers": answers, "rows": judged,
    })
    write(page.sweep_page(base, costs, goal, answers, judged), folder / "capacity.html")
    print(f"written: {folder}/capacity.parquet, capacity.json, capacity.html")


# -- real runs -----------------------------------------------------------------------------------


def _lab(args: argparse.Namespace) -> Lab:
    from amqp1_driver.pipeline.capacity.measure import Lab

    return Lab(args.bus, args.url, args.bus_pid, args.seconds, args.rounds, args.others, args.spare,
               getattr(args, "far", ""), args.runs or "")


def _calibrate(args: argparse.Namespace) -> int:
    from amqp1_driver.pipeline.capacity import costs, fit, measure

    if args.far and args.url == "amqp:":
        raise ValueError("--far needs --url: the embedded router has no links to others")
    if args.results:
        points = [point for name in args.results
                  for point in measure.of_document(json.loads(Path(name).read_text()))]
    else:
        points = _lab(args).run(measure.CALIBRATION, _say)
    found = _fitted(args, points)
    if args.far:
        near, far = _lab(args).pair(measure.CALIBRATION[0], _say)
        found = fit.with_hop(found, near, far, args.cores, args.lanes)
        found = found.replace(origin={**found.origin, "near": near.document(),
                                      "far": far.document()})
        print(f"a link between routers: {far.figures['p50'] - near.figures['p50']:.0f} us more for "
              f"a call, of which the model knows all but {2 * found.hop_us:.0f} us")
    costs.save(found, args.output)
    _show(found.origin["fit"], "Agreement of the costs with what they were made of")
    print(f"written: {args.output}")
    return 0


def _fitted(args: argparse.Namespace, points: Sequence[Point]) -> Costs:
    from amqp1_driver.pipeline.capacity import fit, measure

    _say("fitting the costs")
    found = fit.fit(points, args.cores, args.lanes)
    where = f"embedded {args.bus}" if args.url == "amqp:" else "a bus that was there"
    return found.replace(origin={
        **measure.origin(where), "lanes": args.lanes, "cores": args.cores,
        "points": [point.document() for point in points],
        "fit": fit.errors(points, found, args.cores, args.lanes),
    })


def _check(args: argparse.Namespace) -> int:
    from amqp1_driver.pipeline.capacity import costs, fit, measure

    chosen = [*(measure.CALIBRATION if args.calibrate else ()), *measure.CHECKS]
    points = _lab(args).run(chosen, _say)
    if args.json:  # it took minutes to measure: whatever comes, it is there
        _write(Path(args.json), {"points": [point.document() for point in points]})
    known = (_fitted(args, points[: len(measure.CALIBRATION)]) if args.calibrate
             else costs.load(args.costs))
    if args.calibrate:
        _show(known.origin["fit"], "Calibration: the costs were made of these")
    errors = fit.errors(points[-len(measure.CHECKS):], known, args.cores, args.lanes)
    _show(errors, "Prediction: the costs know nothing of these")
    within = [row["title"] for row in errors if fit.within(row, args.bar)]
    print(f"within {args.bar:g} % in calls/s and in p99: {len(within)} of {len(errors)}")
    if args.json:
        _write(Path(args.json), {
            **measure.origin(args.bus), "errors": errors, "within": within, "bar": args.bar,
            "costs": known.document(), "points": [point.document() for point in points],
        })
    return 0 if len(within) >= NEEDED else 1


def _show(errors: Sequence[Any], title: str) -> None:
    from amqp1_driver.pipeline.capacity.page import check_table
    from amqp1_driver.pipeline.report import as_text

    print(as_text(check_table(errors, title)))


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as 1,2,4") from None
    if found[0] < 1:
        raise argparse.ArgumentTypeError("a mesh has 1 router or more")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The job as a program of its own, for ``spark-submit``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="capacity.py", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    describe(parser)
    args = parser.parse_args(argv)
    try:
        return run(args)
    except ValueError as error:
        print(f"capacity.py: {error}", file=sys.stderr)
        return 2
    except (OSError, RuntimeError) as error:
        print(f"capacity.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
