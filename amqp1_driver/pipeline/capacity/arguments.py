# SPDX-License-Identifier: Apache-2.0

"""Arguments of ``amqp1 pipeline capacity``, for the command and for ``spark-submit``."""

from __future__ import annotations

import argparse
import os

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


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sweep, and the actions ``calibrate`` and ``check``."""
    _sweep_arguments(parser)
    others = parser.add_subparsers(
        dest="action", metavar="{calibrate,check}", help="instead of the sweep; see their --help"
    )
    calibrate = others.add_parser("calibrate", help="make a file of costs, by amqp1 bench")
    _lab_arguments(calibrate)
    calibrate.add_argument(
        "--results", nargs="+", metavar="FILE", help="of amqp1 bench --json, instead of measuring"
    )
    calibrate.add_argument(
        "--far",
        default="",
        metavar="URL",
        help="a second router of the mesh of --url: a link's latency is measured over it",
    )
    calibrate.add_argument("--output", required=True, metavar="FILE", help="the file of costs")
    check = others.add_parser("check", help="hold the model against real runs of amqp1 bench")
    _lab_arguments(check)
    check.add_argument(
        "--costs", default="embedded-router", metavar="NAME|FILE", help="default: embedded-router"
    )
    check.add_argument(
        "--calibrate",
        action="store_true",
        help="measure costs in the same rounds, from other configurations than "
        "those predicted, instead of --costs",
    )
    check.add_argument("--bar", type=float, default=25.0, metavar="PERCENT", help="default: 25")
    check.add_argument("--json", metavar="FILE", help="write what was measured and predicted")


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--costs",
        default="skupper-router",
        metavar="NAME|FILE",
        dest="sweep_costs",
        help="that come along, or a file of calibrate (default: skupper-router)",
    )
    add(
        "--routers",
        type=_numbers,
        default=(1, 2, 4, 8, 16),
        metavar="N,...",
        help="sizes of the mesh (default: 1,2,4,8,16)",
    )
    add("--topology", choices=("full", "ring"), default="full", help="default: full")
    add("--router-threads", type=int, default=4, metavar="N", help="default: 4")
    add("--servers", type=int, default=4, metavar="N", help="processes for each router; default: 4")
    add("--executor", type=int, default=64, metavar="N", help="threads of a server; default: 64")
    add("--agents", type=int, default=100_000, metavar="N", help="at most; default: 100000")
    add(
        "--interval",
        type=float,
        default=10.0,
        metavar="S",
        help="each agent calls so often; default: 10",
    )
    add(
        "--service-ms",
        type=float,
        default=5.0,
        metavar="MS",
        help="mean of what a call waits in the server, as for a database; default: 5",
    )
    add(
        "--service-cv",
        type=float,
        default=1.0,
        metavar="X",
        help="its coefficient of variation; 0 constant, 1 exponential (default)",
    )
    add(
        "--work-us",
        type=float,
        default=0.0,
        metavar="US",
        help="Python work of a call in the server; default: 0",
    )
    add(
        "--local",
        type=float,
        default=-1.0,
        metavar="SHARE",
        help="calls that a server at the agent's own router serves; default: 1/routers",
    )
    add("--size", type=int, default=1024, metavar="B", help="of a request; default: 1024")
    add("--reply-size", type=int, default=-1, metavar="B", help="default: as the request")
    add(
        "--network-us",
        type=float,
        default=100.0,
        metavar="US",
        help="one way between two machines; default: 100",
    )
    add("--server-credit", type=int, default=100, metavar="N", help="default: 100")
    add("--timeout", type=float, default=60.0, metavar="S", help="of a call; default: 60")
    add("--p99-ms", type=float, default=100.0, metavar="MS", help="at most; default: 100")
    add("--calls", type=int, default=20_000, metavar="N", help="in a simulation; default: 20000")
    add("--seeds", type=int, default=3, metavar="N", help="simulations of each; default: 3")
    add(
        "--full",
        action="store_true",
        help="simulate all routers, not one with its share of the agents",
    )
    add("--output", metavar="DIR", help="write capacity.parquet, .json and .html", dest="folder")
    add("--master", metavar="URL", help="of Spark; default: spark-submit's, else local[2]")


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--bus",
        choices=("router", "broker"),
        default="router",
        help="the embedded bus that is started (default: router)",
    )
    add("--url", default="amqp:", help="of a bus that is there, amqp://HOST:PORT/")
    add("--bus-pid", type=int, metavar="PID", help="its process, if it can't be found by the URL")
    add("--lanes", type=int, default=1, metavar="N", help="threads of the bus; default: 1")
    add(
        "--cores",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="of this machine; default: %(default)s",
    )
    add("--rounds", type=int, default=5, metavar="N", help="of each configuration; default: 5")
    add("--seconds", type=float, default=3.0, metavar="S", help="of a run; default: 3")
    add(
        "--others",
        type=float,
        default=0.15,
        metavar="CORES",
        help="a run during which other processes use more than this is made again; default: 0.15",
    )
    add(
        "--spare",
        type=int,
        default=3,
        metavar="N",
        help="further runs of a configuration at most for that; default: 3",
    )
    add(
        "--runs",
        metavar="FILE",
        help="add each run to this file; runs that are in it count as made",
    )


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as 1,2,4") from None
    if found[0] < 1:
        raise argparse.ArgumentTypeError("a mesh has 1 router or more")
    return found
