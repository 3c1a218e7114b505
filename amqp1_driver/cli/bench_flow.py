# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bench-flow``: measures what a slow sender or receiver does to a fast one beside it.

Main thread.
"""

from __future__ import annotations

import argparse
from typing import Any

from amqp1_driver.bench import plan
from amqp1_driver.bench.flow import plan as flows
from amqp1_driver.bench.flow.plan import Flow
from amqp1_driver.cli.measuring import (
    COMPARED,
    OUTPUT,
    SIZES,
    STRICT,
    Options,
    add_command,
    check_output,
    checked,
    guarded,
    one_of,
    play,
    positive,
    seconds,
    several,
)

DESCRIPTION = """\
Measures how much a slow queue slows down a fast queue beside it. One process with one transport of
oslo.messaging uses both queues of one RabbitMQ node, first each queue alone, then both at the same
time. "kept" is the share of its rate that a queue keeps beside the other one. Drivers run in turn
(A B C A B C ...). The command prints medians, and ratios of the last driver to each of the others,
with the lowest and the highest ratio of a round.
"""

EPILOG = """\
scenarios:
  two-senders       threads cast to a classic queue, others to a quorum queue
  receive-and-send  an RPC server receives from a classic queue in which many messages wait, and
                    threads cast to a quorum queue

A quorum queue confirms a message when it is on the disk, a classic queue sooner. To imitate a slow
disk, the command loads a library (made with the C compiler) into the broker. The library waits for
--fsync milliseconds before each fsync and fdatasync.

The command makes the queues beforehand, alike for all drivers, and deletes them afterwards. It
counts each message: a separate client reads the sent messages from their queue again, and the
command compares the received messages with those that have left the queue.

drivers, each [LABEL=]URL[@VENV] as for "amqp1 bench", amqp: and rabbit: only. By default:
  rabbit, pool of 1  rabbit's driver with one connection for all that it sends
  rabbit             the same with its pool of connections, one for each thread that sends, up to 30
  ours               this driver; it has one connection for everything
The table shows the number of connections that the broker counts.

examples, in a checkout:
  amqp1 bench-flow --rounds 5                                   both scenarios
  amqp1 bench-flow two-senders --threads 1,8,64 --rounds 3
  amqp1 bench-flow two-senders --compare amqp: --quorum-threads 400
  amqp1 bench-flow receive-and-send --waiting 10000 --seconds 1 --compare amqp: rabbit:@DIR

Exit status: 0; 1 if a run failed, or if a message was lost or duplicated; with --strict also if
sending a message failed; 2 for wrong arguments; 130 after ^C.
"""


def _whole(text: str) -> int:
    return 0 if text == "0" else positive(text)


def _milliseconds(text: str) -> float:
    return 0.0 if text == "0" else seconds(text)


_OPTIONS: Options = {
    "scenarios SCENARIO": (
        {"nargs": "*", "type": one_of(flows.KINDS)},
        None,
        f"scenarios to run, of {', '.join(flows.KINDS)} (default: both)",
    ),
    "--compare [LABEL=]URL[@VENV]": (
        {"nargs": "+", "type": checked(plan.entry)},
        None,
        "drivers to measure; the last one is compared with the others (default: see below)",
    ),
    "--bus": (tuple(plan.RABBITMQ), "rabbitmq-4.3", "broker to start (default: rabbitmq-4.3)"),
    "--fsync MS": (
        _milliseconds,
        5.0,
        "milliseconds by which the command slows each fsync of the broker; 0: not at all",
    ),
    **COMPARED,
    **OUTPUT,
    **STRICT,
    "--threads N,...": (
        several(positive),
        [8],
        "threads of each sender; several values: a scenario for each",
    ),
    "--quorum-threads N": (
        positive,
        0,
        "threads of the sender to the quorum queue, if not as in --threads",
    ),
    **SIZES,
    "--waiting N": (
        positive,
        1_000_000,
        "messages in the queue from which the RPC server receives",
    ),
    "--prefetch N": (_whole, 200, "prefetch (credit) of the receiver; 0: the driver's default"),
    "--seconds S": (seconds, 5.0, "duration in seconds of each of the three phases of a run"),
    "--warmup S": (seconds, 1.0, "warm-up in seconds before the phases; its messages do not count"),
    "--timeout S": (
        seconds,
        30.0,
        "time limit in seconds for an answer of a process or of the broker",
    ),
    "--deadline S": (seconds, 300.0, "time limit in seconds for filling or emptying a queue"),
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    words = "measure how a slow queue affects senders and receivers beside it"
    add_command(subparsers, "bench-flow", words, (DESCRIPTION, EPILOG), {"": _OPTIONS})


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit status that ``EPILOG`` describes."""
    return guarded("bench-flow", lambda: _bench(args))


def scenarios(args: argparse.Namespace) -> list[Flow]:
    """Return all combinations of kinds, threads and sizes."""
    return [
        Flow(kind, threads, args.quorum_threads, size, args.seconds, args.waiting, args.prefetch)
        for kind in args.scenarios or flows.KINDS
        for threads in args.threads
        for size in args.size
    ]


def entries(args: argparse.Namespace) -> list[plan.Entry]:
    """Return the drivers with their options.

    :raises ValueError: a driver is neither amqp: nor rabbit:
    """
    given = plan.unique(args.compare or flows.defaults())
    more = plan.with_options(given, args.option)
    return flows.with_basics(given, more)


def _bench(args: argparse.Namespace) -> int:
    from amqp1_driver.bench.flow import rabbitmq
    from amqp1_driver.bench.flow.session import Session, draw
    from amqp1_driver.bench.run import Limits

    check_output(args)
    drivers = entries(args)
    limits = Limits(args.warmup, args.timeout, start=args.timeout, deadline=args.deadline)
    with rabbitmq.started(args.bus, args.fsync) as place:
        session = Session(drivers, scenarios(args), args.rounds, place, limits)
        play(session, args, draw)
    return int(session.failed or session.faulty or (args.strict and session.refused))
