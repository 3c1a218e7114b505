# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bench-scale``: measures growth with the number of targets, listeners, calls, clients.

Main thread.
"""

from __future__ import annotations

import argparse
from typing import Any

from amqp1_driver.bench import plan
from amqp1_driver.bench.scale.session import SCENARIOS
from amqp1_driver.cli.bench import check_reach
from amqp1_driver.cli.measuring import (
    OUTPUT,
    Options,
    add_options,
    check_output,
    checked,
    guarded,
    one_of,
    play,
    positive,
    seconds,
    several,
)

_KINDS = ", ".join(plan.BUSES)

DESCRIPTION = """\
Measures how the time, memory and fairness of a driver of oslo.messaging grow with the number of
targets, listeners, calls under way and clients. Each row has a fresh bus and processes of its own;
all is done through oslo.messaging's public interface. A column ^n tells the power of n by which
the one before it has grown since the row above: 1 is in proportion, 2 its square, 0 not at all.
"""

EPILOG = """\
scenarios:
  targets      one client casts to n RPC servers, which are in other processes: the first time,
               which makes a link to each, and then again
  listeners    n RPC servers in one process on one connection: started, called, cut off until
               each answers again, stopped
  outstanding  n threads call one server, which answers none before all calls are there
  reconnect    n clients, many to a process but each with its own connection and I/O thread, lose
               the bus at the same moment; until each has had an answer again
  memory       n links that nothing uses, then calls in steps: what memory stays

columns: "each" is divided by n. p50, p99: of one message, or of the time from the first answer to
the call's own. Jain: index of fairness, 1 when all wait alike, 1/n when one waits for all. taken:
messages that the least and the most busy server have got. lost: messages or clients that came to
nothing. attempts: TCP connections tried by each client, and by all of them within one second.

examples:
  amqp1 bench-scale                                      everything, embedded router
  amqp1 bench-scale targets listeners --n 100,1000 --bus rabbitmq-4.3
  amqp1 bench-scale reconnect --n 20 --clients-each 1    as many processes as clients
  amqp1 bench-scale reconnect --bus amqp://127.0.0.1:5672 --how cut
  amqp1 bench-scale memory --n 10000 --option oslo_messaging_amqp.default_sender_link_timeout=5

Exit status: 0; 1 if a row came to nothing or anything was lost; 2 for wrong arguments; 130 after
^C.
"""


def _bus(text: str) -> tuple[str | None, plan.Entry | None]:
    if text in plan.BUSES:
        return text, None
    entry = plan.entry(text)
    if entry.needs_bus or entry.kind != "messaging":
        raise ValueError(f"{text!r} is neither a URL with a host nor one of {_KINDS}")
    return None, entry


_OPTIONS: Options = {
    "scenarios SCENARIO": (
        {"nargs": "*", "type": one_of(tuple(SCENARIOS))},
        None,
        f"of {', '.join(SCENARIOS)} (default: all)",
    ),
    "--n N,...": (several(positive), None, "a row for each (default: as fits)"),
    "--bus KIND|URL[@VENV]": (
        checked(_bus),
        ("router", None),
        f"start {_KINDS} for each row, or take one that is there (default: router)",
    ),
    "--driver SCHEME:[@VENV]": (checked(plan.entry), "amqp:", "on a bus that is started"),
    "--option GROUP.NAME=VALUE": (
        {"action": "append"},
        [],
        "an option of the configuration; may be repeated",
    ),
    "--threads N": (positive, 8, "that send"),
    "--passes N": (positive, 3, "messages to each target or listener after the first"),
    "--servers-each N": (positive, 1000, "servers in a process, where they have several"),
    "--clients-each N": (positive, 125, "reconnecting clients in a process"),
    "--how": (
        ("restart", "cut"),
        "restart",
        "the bus is killed and started again, or each process cuts its connections",
    ),
    "--calls N": (positive, 10000, "of a step in which memory is watched"),
    "--steps N": (positive, 10, "of these"),
    "--timeout S": (seconds, 120.0, "of a call"),
    **OUTPUT,
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "bench-scale",
        help="measure what grows with the number of targets, listeners, calls and clients",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser.add_argument, _OPTIONS)


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit status that ``EPILOG`` describes."""
    return guarded("bench-scale", lambda: _measure(args))


def _measure(args: argparse.Namespace) -> int:
    from amqp1_driver.bench.scale.report import draw
    from amqp1_driver.bench.scale.session import Session
    from amqp1_driver.bench.scale.stage import Settings

    check_output(args)
    kind, entry = args.bus
    (entry,) = plan.with_options([entry or args.driver], args.option)
    if kind is None:
        check_reach(entry, args.option)
    settings = Settings(
        entry,
        kind,
        args.threads,
        args.passes,
        args.servers_each,
        args.clients_each,
        args.how,
        args.calls,
        args.steps,
        args.timeout,
    )
    session = Session(settings, args.scenarios or list(SCENARIOS), args.n)
    play(session, args, draw)
    return int(session.failed or session.faulty)
