# SPDX-License-Identifier: Apache-2.0

"""Arguments of ``amqp1 pipeline capacity``, for the command and for ``spark-submit``."""

from __future__ import annotations

import argparse
import os

DESCRIPTION = """\
Computes how many agents a mesh of n routers carries if 99 of 100 calls are to end within a given
time. Simulates the agents, which call servers through the routers, in many simulations on Spark.
The costs of a call come from measurements ("calibrate"). "check" compares predictions with real
runs.
"""
EPILOG = """\
examples:
  amqp1 pipeline capacity --routers 1,2,4,8,16 --p99-ms 50 --output DIR
  amqp1 pipeline capacity --routers 1,2,4 --agents 20000 --interval 5 --service-ms 20
  amqp1 pipeline capacity calibrate --output costs.json
  amqp1 pipeline capacity calibrate --url amqp://127.0.0.1:5672/ --lanes 4 --output costs.json
  amqp1 pipeline capacity check --calibrate --rounds 5
  spark-submit --master URL .../pipeline/commands/capacity.py --routers 1,2,4 --output DIR

Exit status: 0; 1 if a step failed, or if fewer than three configurations of a check are within
--bar; 2 for wrong arguments; 130 after ^C.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sweep, and the actions ``calibrate`` and ``check``."""
    _sweep_arguments(parser)
    others = parser.add_subparsers(
        dest="action",
        metavar="{calibrate,check}",
        help="another action instead of the simulation; see the --help of each",
    )
    calibrate = others.add_parser(
        "calibrate", help="measure costs with amqp1 bench, and write a file of costs"
    )
    _lab_arguments(calibrate)
    calibrate.add_argument(
        "--results",
        nargs="+",
        metavar="FILE",
        help="results of amqp1 bench --json to use instead of measuring",
    )
    calibrate.add_argument(
        "--far",
        default="",
        metavar="URL",
        help="URL of a second router of the mesh of --url, to measure the latency of a link "
        "between routers",
    )
    calibrate.add_argument("--output", required=True, metavar="FILE", help="file of costs to write")
    check = others.add_parser("check", help="compare the model with real runs of amqp1 bench")
    _lab_arguments(check)
    check.add_argument(
        "--costs",
        default="embedded-router",
        metavar="NAME|FILE",
        help="costs to check: a name, or a file of calibrate (default: embedded-router)",
    )
    check.add_argument(
        "--calibrate",
        action="store_true",
        help="instead of --costs, measure costs in the same rounds, with other "
        "configurations than the predicted ones",
    )
    check.add_argument(
        "--bar",
        type=float,
        default=25.0,
        metavar="PERCENT",
        help="largest error of a prediction (default: 25)",
    )
    check.add_argument(
        "--json", metavar="FILE", help="write measurements and predictions to this file"
    )


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--costs",
        default="skupper-router",
        metavar="NAME|FILE",
        dest="sweep_costs",
        help="costs to use: a name, or a file of calibrate (default: skupper-router)",
    )
    add(
        "--routers",
        type=_numbers,
        default=(1, 2, 4, 8, 16),
        metavar="N,...",
        help="sizes of the mesh: numbers of routers (default: 1,2,4,8,16)",
    )
    add(
        "--topology",
        choices=("full", "ring"),
        default="full",
        help="full: each router has links to all others; ring: to two neighbours (default: full)",
    )
    add(
        "--router-threads",
        type=int,
        default=4,
        metavar="N",
        help="threads of each router (default: 4)",
    )
    add(
        "--servers",
        type=int,
        default=4,
        metavar="N",
        help="server processes for each router (default: 4)",
    )
    add(
        "--executor", type=int, default=64, metavar="N", help="threads of each server (default: 64)"
    )
    add(
        "--agents",
        type=int,
        default=100_000,
        metavar="N",
        help="largest number of agents to try (default: 100000)",
    )
    add(
        "--interval",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds between two calls of an agent (default: 10)",
    )
    add(
        "--service-ms",
        type=float,
        default=5.0,
        metavar="MS",
        help="mean time of a call in the server without use of the processor, such as a "
        "query of a database (default: 5)",
    )
    add(
        "--service-cv",
        type=float,
        default=1.0,
        metavar="X",
        help="coefficient of variation of --service-ms; 0: constant, 1: exponential (default: 1)",
    )
    add(
        "--work-us",
        type=float,
        default=0.0,
        metavar="US",
        help="processor time of a call for Python code in the server (default: 0)",
    )
    add(
        "--local",
        type=float,
        default=-1.0,
        metavar="SHARE",
        help="share of the calls that a server at the agent's own router serves (default: "
        "1/routers)",
    )
    add(
        "--size",
        type=int,
        default=1024,
        metavar="B",
        help="size of a request in bytes (default: 1024)",
    )
    add(
        "--reply-size",
        type=int,
        default=-1,
        metavar="B",
        help="size of a reply in bytes (default: as the request)",
    )
    add(
        "--network-us",
        type=float,
        default=100.0,
        metavar="US",
        help="latency from one machine to another, one way (default: 100)",
    )
    add(
        "--server-credit",
        type=int,
        default=100,
        metavar="N",
        help="credit of each server, the option rpc_server_credit (default: 100)",
    )
    add(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="timeout of a call in seconds (default: 60)",
    )
    add(
        "--p99-ms",
        type=float,
        default=100.0,
        metavar="MS",
        help="largest 99th percentile of the time of a call (default: 100)",
    )
    add(
        "--calls",
        type=int,
        default=20_000,
        metavar="N",
        help="number of calls in a simulation (default: 20000)",
    )
    add(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="number of simulations of each setup, with different seeds (default: 3)",
    )
    add(
        "--full",
        action="store_true",
        help="simulate all routers, instead of one router with its share of the agents",
    )
    add(
        "--output",
        metavar="DIR",
        help="folder for capacity.parquet, capacity.json and capacity.html",
        dest="folder",
    )
    add(
        "--master",
        metavar="URL",
        help="master of Spark (default: that of spark-submit, else local[2])",
    )


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--bus",
        choices=("router", "broker"),
        default="router",
        help="embedded bus to start (default: router)",
    )
    add("--url", default="amqp:", help="URL of a running bus to use instead: amqp://HOST:PORT/")
    add(
        "--bus-pid",
        type=int,
        metavar="PID",
        help="process id of the bus, if the command cannot find it by the URL",
    )
    add("--lanes", type=int, default=1, metavar="N", help="threads of the bus (default: 1)")
    add(
        "--cores",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="cores of this machine (default: %(default)s)",
    )
    add(
        "--rounds", type=int, default=5, metavar="N", help="runs of each configuration (default: 5)"
    )
    add(
        "--seconds",
        type=float,
        default=3.0,
        metavar="S",
        help="duration of a run in seconds (default: 3)",
    )
    add(
        "--others",
        type=float,
        default=0.15,
        metavar="CORES",
        help="repeat a run during which other processes used more cores than this (default: 0.15)",
    )
    add(
        "--spare",
        type=int,
        default=3,
        metavar="N",
        help="largest number of such repetitions for a configuration (default: 3)",
    )
    add(
        "--runs",
        metavar="FILE",
        help="add each run to this file, and do not repeat runs that the file has already",
    )


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as 1,2,4") from None
    if found[0] < 1:
        raise argparse.ArgumentTypeError("a mesh has 1 router or more")
    return found
