# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bench``: measures how fast a driver of oslo.messaging is, ours or any other.

Main thread.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amqp1_driver.bench import plan
from amqp1_driver.bench.plan import Scenario
from amqp1_driver.bench.workers.payload import LEAST, SIZES
from amqp1_driver.cli.measuring import (
    COMPARED,
    OUTPUT,
    STRICT,
    Options,
    add_command,
    check_output,
    checked,
    guarded,
    play,
    positive,
    seconds,
    several,
)
from amqp1_driver.cli.reach import nobody_at

_VENVS = ("removed", "rabbit")
_DEFAULT_SIZES = ", ".join(f"{kind} {plan.size_text(size)}" for kind, size in SIZES.items())

DESCRIPTION = """\
Sends messages through oslo.messaging drivers as fast as possible, or at a rate, and reports their
speed and cost, and lost or duplicated messages. Each run has its own processes for clients and
servers. Several drivers run in turn (A B C A B C ...), so that other load on the machine affects
all of them alike. The command prints medians, and ratios to the first driver with the lowest and
highest ratio of a round.
"""

EPILOG = """\
drivers, each [LABEL=]URL[@VENV]:
  amqp: rabbit:                 on the bus that --bus starts; options as amqp:?NAME=VALUE
  amqp://user:pw@host:5672/     on a bus that runs already
  env:NAME file:PATH            a URL in the environment or a file: others can read command lines
  amqp:@/path/to/venv           measured with that virtual environment's Python
  floor:                        oslo.messaging alone: no bus, client and server in one process
  tcp:                          TCP and threads alone (call, cast)
  proton: proton:amqp://host    proton's Python handlers (call, cast); each thread stands for one
                                outstanding message

columns: messages sent and received per second (received: until the last one has arrived); lost:
messages that were sent successfully and not received; dup: messages that were received more than
once; err: messages whose sending failed; latency of the call, or of the sending; CPU and context
switches per message, of clients per message sent, of servers and bus per message received; peak
memory of the largest process. With several rounds the figures are medians, some with the
(lowest..highest) round; lost, dup and err are sums.

profile: each scenario runs twice. During the second run the command samples, every few
milliseconds, the stack of the thread that uses the processor. Tables show the share of each layer
in clients and servers, the functions with the largest shares, and the cost of the samples. If
Linux's perf is installed and permitted (as root, or with kernel.perf_event_paranoid <= 0), the
profile also shows the layers below Python: kernel, interpreter, C libraries. DIR gets flame graphs
(*.svg), stacks for other tools (*.folded) and profile.json.

virtual environments to compare with:
  amqp1 bench --make-venv removed DIR    oslo.messaging 14.9.3, the last with an amqp driver
  amqp1 bench --make-venv rabbit DIR     oslo.messaging >= 18.2

examples:
  amqp1 bench                                                   this driver, embedded router
  amqp1 bench --op call --threads 1,8,64 --rounds 5 \\
      --compare removed=amqp:@DIR ours=amqp:                    against the removed driver
  amqp1 bench --bus rabbitmq-4.3 --op call notify --compare rabbit=rabbit:@DIR2 ours=amqp:
  amqp1 bench --op call --threads 64 --compare floor: ours=amqp: tcp:
  amqp1 bench --payload nova --size 12K,77K                     bodies like those of Nova
  amqp1 bench --rate 500 --threads 16 --seconds 10 --json result.json --plot result.png
  amqp1 bench --threads 1,64 --seconds 10 --profile DIR         where the time goes

Exit status: 0; 1 if a run failed, or if any driver lost or duplicated a message; with --strict also
if sending a message failed; 2 for wrong arguments; 130 after ^C.
"""


_WHAT: Options = {
    "--compare [LABEL=]URL[@VENV]": (
        {"nargs": "+", "type": checked(plan.entry)},
        None,
        "drivers to measure, see below; ratios are to the first (default: amqp:)",
    ),
    "--bus": (plan.BUSES, None, "bus to start, for URLs without a host (default: router)"),
    "--bus-pid PID": (
        int,
        None,
        "process id of the bus (default: that of the local process that listens at the URL)",
    ),
    **COMPARED,
    "--make-venv KIND DIR": (
        {"nargs": 2},
        None,
        "only make a virtual environment in DIR; KIND is removed or rabbit",
    ),
}
_WORK: Options = {
    "--op": (
        {"nargs": "+", "choices": plan.OPERATIONS},
        ["call"],
        "operations to measure, a scenario for each (default: call)",
    ),
    "--threads N,...": (
        several(positive),
        [8],
        "sending threads of each client; several values: a scenario for each",
    ),
    "--payload": (
        tuple(SIZES),
        "bytes",
        "what messages carry: a text; or contexts and objects like those of a service, the same "
        "ones in each run",
    ),
    "--size B,...": (
        several(checked(plan.size)),
        None,
        "size of the payload in bytes, as 16K,1M, of nova, neutron and cinder with the context; "
        f"several values: a scenario for each (default: {_DEFAULT_SIZES})",
    ),
    "--reply-size B": (
        checked(plan.size),
        None,
        "size of the reply to a call, in bytes (default: the reply is the payload)",
    ),
    "--clients N": (positive, 1, "client processes"),
    "--servers N": (positive, 1, "server processes"),
    "--executor N": (positive, 64, "threads of each server"),
    "--count N": (positive, 0, "number of messages in a run, instead of --seconds"),
    "--rate R": (
        seconds,
        0.0,
        "messages per second of all clients together; the latency of a message then "
        "counts from the time at which it was due (default: as fast as possible, each "
        "thread waits for its message)",
    ),
}
_LIMITS: Options = {
    "--seconds S": (seconds, None, "duration of a run (default: 5)"),
    "--warmup S": (seconds, 1.0, "warm-up before a run; its messages do not count"),
    "--timeout S": (seconds, 30.0, "time limit of a message"),
    "--drain S": (
        seconds,
        3.0,
        "time without progress after which outstanding messages count as lost",
    ),
    "--deadline S": (seconds, 300.0, "time limit for sending the messages of --count"),
}
_OUTPUT: Options = {
    **OUTPUT,
    "--profile DIR": (
        {},
        None,
        "write a profile of the processor time to this folder, see below; no ratios",
    ),
    "--no-perf": ({"action": "store_true"}, None, "with --profile: sample nothing below Python"),
    "--rst FILE": ({}, None, "with --profile: write its tables as reStructuredText too"),
    **STRICT,
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    groups = {
        "drivers and bus": _WHAT,
        "load": _WORK,
        "time, in seconds": _LIMITS,
        "output": _OUTPUT,
    }
    words = "measure the speed of this driver or of others"
    add_command(subparsers, "bench", words, (DESCRIPTION, EPILOG), groups)


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit status that ``EPILOG`` describes."""
    if args.make_venv:
        return guarded("bench", lambda: _make_venv(*args.make_venv))
    return guarded("bench", lambda: _bench(args))


def _make_venv(kind: str, folder: str) -> int:
    from amqp1_driver.bench import children

    if kind not in _VENVS:
        raise ValueError(f"--make-venv {kind}: {' or '.join(_VENVS)}")
    print(children.make_venv(kind, folder))
    return 0


def scenarios(args: argparse.Namespace) -> list[Scenario]:
    """Return all combinations of operations, threads and sizes.

    :raises ValueError: a size is too small for the payload
    """
    sizes = args.size or [SIZES[args.payload]]
    if args.payload != "bytes" and min(sizes) < LEAST:
        raise ValueError(f"--payload {args.payload}: --size {min(sizes)} is less than {LEAST}")
    duration = args.seconds or (0.0 if args.count else 5.0)
    return [
        Scenario(
            operation,
            threads,
            args.clients,
            args.servers,
            size,
            args.reply_size,
            duration,
            args.count,
            args.rate,
            args.payload,
        )
        for operation, threads, size in itertools.product(args.op, args.threads, sizes)
    ]


def _bench(args: argparse.Namespace) -> int:
    from amqp1_driver.bench import buses, plot
    from amqp1_driver.bench.profile.report import rst
    from amqp1_driver.bench.profile.session import Profile
    from amqp1_driver.bench.run import Limits, Place
    from amqp1_driver.bench.session import Session

    _check_output(args)
    given = args.compare or [plan.entry("amqp:")]
    entries = plan.with_options(plan.unique(given), args.option)
    work = scenarios(args)
    for entry in entries:
        if entry.needs_bus and entry.url.startswith("rabbit:") and args.bus not in plan.RABBITMQ:
            raise ValueError(
                f"{entry.label}: the embedded bus has no AMQP 0.9.1; --bus "
                "rabbitmq-4.3, or a URL with a host"
            )
    for entry in entries:
        if entry.kind in ("messaging", "raw") and not entry.needs_bus:
            check_reach(entry, args.option)
    limits = Limits(args.warmup, args.timeout, deadline=args.deadline, drain=args.drain)
    with contextlib.ExitStack() as stack:
        bus = None
        if args.bus or any(entry.needs_bus for entry in entries):
            bus = stack.enter_context(buses.started(args.bus or "router"))
        place = Place(bus.address if bus else "", args.bus_pid, args.executor)
        name = bus.name if bus else None
        load = entries, work, args.rounds, place, limits
        session: Session | Profile
        if args.profile:
            session = Profile(*load, Path(args.profile), not args.no_perf, name)
        else:
            session = Session(*load, name)
        play(session, args, plot.draw)
    if args.rst:
        Path(args.rst).write_text(rst(session.document), encoding="utf-8")
    for words in session.faults:
        print(f"amqp1 bench: {words}", file=sys.stderr)
    return int(session.failed or bool(session.faults) or (args.strict and session.refused))


def check_reach(entry: plan.Entry, options: Sequence[str]) -> None:
    """Check that a host of the driver's URL accepts connections, unless an option names a proxy.

    :raises ConnectionError: no host does
    """
    if any("proxy=" in option for option in options):
        return
    nobody = nobody_at(entry.on(""))
    if nobody is not None:
        raise ConnectionError(f"{entry.label}: {nobody}")


def _check_output(args: argparse.Namespace) -> None:
    """Check the options for output now, before an hour of measuring.

    :raises ValueError: options exclude each other, or a file name does not fit
    :raises OSError: a folder does not exist
    """
    if args.profile and (args.plot or args.json):
        raise ValueError("--profile has no --plot and --json: DIR gets flame graphs and JSON")
    if args.rst and not args.profile:
        raise ValueError("--rst belongs to --profile")
    check_output(args)
