# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline capacity``: how many agents a mesh of routers carries, by simulation.

The module is also a program for ``spark-submit``, with the same arguments. Main thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.capacity.arguments import DESCRIPTION, EPILOG, describe

if TYPE_CHECKING:
    from amqp1_driver.pipeline.capacity.costs import Costs
    from amqp1_driver.pipeline.capacity.measure import Lab, Point
    from amqp1_driver.pipeline.capacity.plan import Goal
    from amqp1_driver.pipeline.capacity.setup import Setup

#: number of configurations within the bar for which a check succeeds
NEEDED = 3
#: name, in results, of a bus that the command has not started
_ELSEWHERE = "a bus that was there"


def add_parser(subparsers: Any) -> None:
    """Add the parser of the job."""
    describe(
        subparsers.add_parser(
            "capacity",
            help="compute how many agents a mesh of routers carries, by simulation",
            description=DESCRIPTION,
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def run(args: argparse.Namespace) -> int:
    """Run the job, and return the exit status.

    :raises ValueError: an argument has a value that is not possible
    :raises SparkMissing: the extra ``spark`` is not installed
    """
    try:
        import simpy  # noqa: F401
    except ImportError as error:
        from amqp1_driver.pipeline.session import SparkMissing

        raise SparkMissing(
            f'{error}: the pipeline needs "pip install amqp1-driver[spark]"'
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
        topology=args.topology,
        router_threads=args.router_threads,
        executor=args.executor,
        agents=args.agents,
        interval_s=args.interval,
        size=args.size,
        reply=args.reply_size,
        service_us=args.service_ms * 1e3,
        service_cv=args.service_cv,
        work_us=args.work_us,
        local=args.local,
        network_us=args.network_us,
        server_credit=args.server_credit,
        timeout_s=args.timeout,
        calls=args.calls,
        warmup=args.calls // 5,
        fold=not args.full,
    )


def _passes(
    spark: Any, setups: Sequence[Setup], costs: Costs, goal: Goal, seeds: int
) -> list[dict[str, Any]]:
    """Run the simulations of both passes, and return their rows."""
    from amqp1_driver.pipeline.capacity import plan
    from amqp1_driver.pipeline.capacity.sweep import sweep

    def done(rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [row.asDict() for row in sweep(spark, rows, costs).collect()]

    found = done(plan.first(setups, costs, goal, seeds))
    further = plan.second(setups, plan.judged(found, goal), seeds)
    return found + done(further) if further else found


def _publish(
    args: argparse.Namespace,
    base: Setup,
    costs: Costs,
    goal: Goal,
    setups: Sequence[Setup],
    simulated: Sequence[dict[str, Any]],
    spark: Any,
) -> None:
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
    _write(
        folder / "capacity.json",
        {
            "setup": base.row(),
            "goal": {"p99_ms": goal.p99_ms, "agents": goal.agents},
            "costs": costs.document(),
            "answers": answers,
            "rows": judged,
        },
    )
    write(page.sweep_page(base, costs, goal, answers, judged), folder / "capacity.html")
    print(f"written: {folder}/capacity.parquet, capacity.json, capacity.html")


# -- real runs -----------------------------------------------------------------------------------


def _lab(args: argparse.Namespace) -> Lab:
    from amqp1_driver.pipeline.capacity.measure import Lab

    return Lab(
        args.bus,
        args.url,
        args.bus_pid,
        args.seconds,
        args.rounds,
        args.others,
        args.spare,
        getattr(args, "far", ""),
        args.runs or "",
        args.lanes,
    )


def _calibrate(args: argparse.Namespace) -> int:
    from amqp1_driver.pipeline.capacity import costs, fit, measure

    if args.far and args.url == "amqp:":
        raise ValueError("--far needs --url: the embedded router has no links to others")
    if args.results:
        points = [
            point
            for name in args.results
            for point in measure.of_document(json.loads(Path(name).read_text()))
        ]
    else:
        points = _lab(args).run(measure.CALIBRATION, _say)
    found = _fitted(args, points)
    if args.far:
        near, far = _lab(args).pair(measure.CALIBRATION[0], _say)
        found = fit.with_hop(found, near, far, args.cores, args.lanes)
        found = found.replace(
            origin={**found.origin, "near": near.document(), "far": far.document()}
        )
        print(
            f"a link between routers: {far.figures['p50'] - near.figures['p50']:.0f} us more for "
            f"a call, of which the model knows all but {2 * found.hop_us:.0f} us"
        )
    costs.save(found, args.output)
    _show(found.origin["fit"], "Agreement of the costs with what they were made of")
    print(f"written: {args.output}")
    return 0


def _fitted(args: argparse.Namespace, points: Sequence[Point]) -> Costs:
    from amqp1_driver.pipeline.capacity import fit, measure

    _say("fitting the costs")
    found = fit.fit(points, args.cores, args.lanes)
    where = f"embedded {args.bus}" if args.url == "amqp:" else _ELSEWHERE
    return found.replace(
        origin={
            **measure.origin(where),
            "lanes": args.lanes,
            "cores": args.cores,
            "points": [point.document() for point in points],
            "fit": fit.errors(points, found, args.cores, args.lanes),
        }
    )


def _check(args: argparse.Namespace) -> int:
    from amqp1_driver.pipeline.capacity import costs, fit, measure

    chosen = [*(measure.CALIBRATION if args.calibrate else ()), *measure.CHECKS]
    points = _lab(args).run(chosen, _say)
    if args.json:  # the measurement took minutes: write it before anything can fail
        _write(Path(args.json), {"points": [point.document() for point in points]})
    known = (
        _fitted(args, points[: len(measure.CALIBRATION)])
        if args.calibrate
        else costs.load(args.costs)
    )
    if args.calibrate:
        _show(known.origin["fit"], "Calibration: the costs were made of these")
    errors = fit.errors(points[-len(measure.CHECKS) :], known, args.cores, args.lanes)
    _show(errors, "Prediction: the costs know nothing of these")
    within = [row["title"] for row in errors if fit.within(row, args.bar)]
    print(f"within {args.bar:g} % in calls/s and in p99: {len(within)} of {len(errors)}")
    if args.json:
        _write(
            Path(args.json),
            {
                **measure.origin(args.bus if args.url == "amqp:" else _ELSEWHERE),
                "errors": errors,
                "within": within,
                "bar": args.bar,
                "costs": known.document(),
                "points": [point.document() for point in points],
            },
        )
    return 0 if len(within) >= NEEDED else 1


def _show(errors: Sequence[Any], title: str) -> None:
    from amqp1_driver.pipeline.capacity.page import check_table
    from amqp1_driver.pipeline.report import as_text

    print(as_text(check_table(errors, title)))


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job as a program of its own, for ``spark-submit``; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="capacity.py",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
