# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bench-scale``: measures growth with the number of targets, listeners, calls, clients.

Main thread.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from amqp1_driver.bench import plan
from amqp1_driver.bench.scale import SCENARIOS, Session, Settings, draw
from amqp1_driver.cli.bench import check_reach
from amqp1_driver.cli.measuring import (
    OUTPUT,
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

_KINDS = ", ".join(plan.BUSES)

DESCRIPTION = """\
Measures how the time, memory and fairness of a driver of oslo.messaging grow with the number of
targets, listeners, outstanding calls and clients. Each row has a fresh bus and its own processes,
which use only oslo.messaging's public interface. A column ^n shows the power of n by which the
column before it has grown since the row above: 1 is in proportion, 2 its square, 0 no growth.
"""

EPILOG = """\
scenarios:
  targets      one client casts to n RPC servers in other processes: once to each server, which
               makes a link to it, and then again
  listeners    n RPC servers in one process on one connection: the command starts and calls them,
               breaks the connection, waits until each answers again, and stops them
  outstanding  n threads call one server, which answers when it has all of the calls
  reconnect    n clients lose the bus at the same moment; the command waits until each has got an
               answer again. A process has many clients, each with its own connection and I/O thread
  memory       n unused links, then calls in steps: the memory that stays in use

columns: "each" is divided by n. p50, p99: of the latency of a message, or of the time from the
first answer to the answer of the call. Jain: index of fairness, 1 if all wait equally long, 1/n if
only one waits. taken: messages that the least and the most busy server have received. lost:
messages or clients without a result. attempts: TCP connections that each client tried, and that all
clients together tried within one second.

examples:
  amqp1 bench-scale                                      everything, embedded router
  amqp1 bench-scale targets listeners --n 100,1000 --bus rabbitmq-4.3
  amqp1 bench-scale reconnect --n 20 --clients-each 1    as many processes as clients
  amqp1 bench-scale reconnect --bus amqp://127.0.0.1:5672 --how cut
  amqp1 bench-scale memory --n 10000 --option oslo_messaging_amqp.default_sender_link_timeout=5

Exit status: 0; 1 if a row failed or anything was lost; 2 for wrong arguments; 130 after ^C.
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
        f"scenarios to run, of {', '.join(SCENARIOS)} (default: all)",
    ),
    "--n N,...": (
        several(positive),
        None,
        "values of n, a row for each (default: depends on the scenario)",
    ),
    "--bus KIND|URL[@VENV]": (
        checked(_bus),
        ("router", None),
        f"start {_KINDS} for each row, or use the bus at a URL (default: router)",
    ),
    "--driver SCHEME:[@VENV]": (
        checked(plan.entry),
        "amqp:",
        "driver to measure, on a bus that the command starts",
    ),
    "--option GROUP.NAME=VALUE": (
        {"action": "append"},
        [],
        "set a configuration option; may be repeated",
    ),
    "--threads N": (positive, 8, "sending threads"),
    "--passes N": (positive, 3, "messages to each target or listener after the first message"),
    "--servers-each N": (
        positive,
        1000,
        "RPC servers in one process, where there are several processes",
    ),
    "--clients-each N": (positive, 125, "reconnecting clients in one process"),
    "--how": (
        ("restart", "cut"),
        "restart",
        "restart: kill the bus and start it again; cut: each process cuts its connections",
    ),
    "--calls N": (positive, 10000, "calls in a step of the scenario memory"),
    "--steps N": (positive, 10, "steps of the scenario memory"),
    "--timeout S": (seconds, 120.0, "time limit of a call in seconds"),
    **OUTPUT,
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    words = "measure growth with the number of targets, listeners, calls and clients"
    add_command(subparsers, "bench-scale", words, (DESCRIPTION, EPILOG), {"": _OPTIONS})


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit status that ``EPILOG`` describes."""
    return guarded("bench-scale", lambda: _measure(args))


def _measure(args: argparse.Namespace) -> int:
    check_output(args)
    kind, entry = args.bus
    (entry,) = plan.with_options([entry or args.driver], args.option)
    if kind is None:
        check_reach(entry, args.option)
    given = [field.name for field in dataclasses.fields(Settings)[2:]]
    settings = Settings(entry, kind, *(getattr(args, name) for name in given))
    session = Session(settings, args.scenarios or list(SCENARIOS), args.n)
    play(session, args, draw)
    return int(session.failed or session.faulty)
