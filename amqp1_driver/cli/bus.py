# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bus``: runs the embedded AMQP 1.0 bus in the foreground; on the main thread."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amqp1_driver.bus import MODES, Bus, Limits, Namespace
from amqp1_driver.bus.namespace import parse_rule, parse_topic
from amqp1_driver.cli.measuring import Options, add_options, checked
from amqp1_driver.masking import given

NOTICE = "This bus is for development and tests only: it keeps messages in memory."


def _endpoint(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _lines(text: str) -> list[str]:
    return [line for line in given(text).splitlines() if line]


def _users(text: str) -> list[tuple[str, str]]:
    """Return the users in the text, or in the environment variable or file that it names.

    Each line has one user.
    """
    users = [_user(line) for line in _lines(text)]
    if not users:  # without a user, the bus would accept every client
        raise ValueError(f"{text} has no user")
    return users


def _user(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not separator or not name:
        raise ValueError("a user is NAME:PASSWORD")
    return name, password


def _rules(text: str) -> list[Any]:
    return [parse_rule(line) for line in _lines(text)]


def _repeated(convert: Callable[[str], Any] = str, action: str = "append") -> dict[str, Any]:
    return {"action": action, "type": checked(convert)}


_COMMON: Options = {
    "--listen HOST:PORT": (
        checked(_endpoint),
        ("127.0.0.1", 5672),
        "address and port to listen on; port 0: any free port (default: 127.0.0.1:5672)",
    ),
    "--websocket PORT": (
        int,
        None,
        "also accept AMQP over WebSocket on this port; 0: any free port",
    ),
    "--mode": (MODES, "router", "kind of bus"),
    "--tls-cert F": (
        str,
        None,
        "PEM file with the server's certificate; the bus then accepts TLS only",
    ),
    "--tls-key F": (
        str,
        None,
        "PEM file with the key of the certificate, if --tls-cert does not contain it",
    ),
    "--tls-ca F": (str, None, "require client certificates signed by this CA"),
    "--user NAME:PASSWORD": (
        _repeated(_users, "extend"),
        [],
        "require SASL PLAIN with one of these users; may be repeated; env:NAME or file:PATH: users "
        "from a variable or file, one on each line",
    ),
    "--idle-timeout S": (
        float,
        16.0,
        "seconds without data from a client after which the bus closes its connection",
    ),
}

#: mode -> options for this mode alone; they have no effect in other modes
_ONLY: Mapping[str, Options] = {
    "broker": {
        "--queue-capacity N": (
            int,
            None,
            "number of messages in a queue at which its producers get no more credit",
        ),
        "--queue-resume N": (
            int,
            None,
            "number of messages at which the producers get credit again (default: 3/4 of the "
            "capacity)",
        ),
        "--queue-capacity-bytes N": (
            int,
            None,
            "capacity in bytes; a queue is full when it reaches either capacity",
        ),
        "--queue-resume-bytes N": (
            int,
            None,
            "size in bytes at which the producers get credit again (default: 3/4 of the capacity)",
        ),
        "--queue-limits FILE": (
            str,
            None,
            "limits of single queues: a JSON object of address -> object of capacity, resume, "
            "capacity_bytes, resume_bytes; the bus reads the file again at SIGHUP",
        ),
    },
    "servicebus": {
        "--queue NAME": (
            _repeated(),
            [],
            "a queue that exists; the bus does not create entities when clients use them; may be "
            "repeated",
        ),
        "--session-queue NAME": (
            _repeated(),
            [],
            "a queue that requires sessions; may be repeated",
        ),
        "--topic NAME[:SUB,SUB]": (
            _repeated(parse_topic),
            [],
            "a topic with its subscriptions; may be repeated",
        ),
        "--sas-rule NAME:KEY[:RIGHTS]": (
            _repeated(_rules, "extend"),
            [],
            "a rule whose key signs tokens; RIGHTS are some of Send,Listen,Manage (default: all); "
            "may be repeated; also env:NAME or file:PATH",
        ),
        "--jwt-secret KEY": (
            checked(given),
            None,
            "key that signs JSON Web Tokens (HS256); also env:NAME or file:PATH",
        ),
        "--lock-duration S": (
            float,
            None,
            "seconds for which the bus locks a delivered message for its receiver (default: 60)",
        ),
        "--max-delivery-count N": (
            int,
            None,
            "failed deliveries after which a message becomes a dead letter (default: 10)",
        ),
        "--token-grace S": (
            float,
            None,
            "seconds after which the bus closes a connection that has no token (default: 20)",
        ),
    },
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "bus",
        help="run an AMQP 1.0 bus for development and tests",
        description="Runs an AMQP 1.0 bus for development and tests: a router, which forwards "
        "messages, or a broker, which stores them. The first line of its output has "
        "the address on which it listens.",
    )
    add_options(parser, _COMMON)
    for mode, options in _ONLY.items():
        add_options(parser.add_argument_group(f"--mode {mode}"), options)
    parser.add_argument("--trace", action="store_true", help="write every frame to standard error")


def _misplaced(args: argparse.Namespace) -> str | None:
    """Return an error text if an option has no effect with the other options; else None."""
    for mode, options in _ONLY.items():
        for option in (names.split()[0] for names in options):
            if mode != args.mode and getattr(args, _attribute(option)) not in (None, []):
                return f"{option} is for --mode {mode}, and this is --mode {args.mode}"
    for option in ("--tls-key", "--tls-ca"):
        if getattr(args, _attribute(option)) is not None and args.tls_cert is None:
            return f"{option} needs --tls-cert"
    return None


def _attribute(option: str) -> str:
    return option[2:].replace("-", "_")


def _queue_limits(path: str | None) -> dict[str, Limits]:
    """Read the watermarks of queues by address from a JSON file.

    :param path: None: no watermarks
    :raises OSError: the file cannot be read; the text names the file
    :raises ValueError: the content is wrong; the text names the file
    """
    if path is None:
        return {}
    text = Path(path).read_text(encoding="utf-8")
    try:
        return {address: Limits.of(**marks) for address, marks in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as exc:
        raise ValueError(f"{path}: {exc}") from exc


def _reload(bus: Bus, path: str | None, known: set[str]) -> set[str]:
    """Read the watermarks again, and apply them; a file with an error changes nothing.

    :param known: addresses whose watermarks are in force
    :returns: addresses whose watermarks are in force afterwards
    """
    try:
        found = _queue_limits(path)
    except (OSError, ValueError) as exc:
        logging.getLogger(__name__).error("The watermarks stay as they are: %s", exc)
        return known
    for address in known - set(found):
        bus.limit_queue(address, None)
    for address, limits in found.items():
        bus.limit_queue(address, limits)
    logging.getLogger(__name__).info("Watermarks of %d address(es) are in force", len(found))
    return set(found)


def _namespace(args: argparse.Namespace) -> Namespace | None:
    if args.mode != "servicebus":
        return None
    names = ("jwt_secret", "lock_duration", "max_delivery_count", "token_grace")
    named = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return Namespace(
        queues=tuple(args.queue),
        session_queues=tuple(args.session_queue),
        topics=dict(args.topic),
        rules=dict(args.sas_rule),
        **named,
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    :returns: exit status: 0; 1 if the bus did not start, or died; 2 if options exclude each other
    """
    problem = _misplaced(args)
    if problem is not None:
        print(f"amqp1 bus: {problem}", file=sys.stderr)
        return 2
    # Block the signals before the bus's thread starts, so that only sigwait() receives them.
    signals = {signal.SIGTERM, signal.SIGINT}
    if args.queue_limits is not None:
        signals.add(signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    host, port = args.listen
    deaths: list[BaseException] = []
    known: set[str] = set()

    def died(error: BaseException) -> None:
        deaths.append(error)
        os.kill(os.getpid(), signal.SIGTERM)

    # The log of the bus goes to standard error; --trace writes there without logging.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        queue_limits = _queue_limits(args.queue_limits)
        known = set(queue_limits)
        bus = Bus(
            args.mode,
            host,
            port,
            tls_cert=args.tls_cert,
            tls_key=args.tls_key,
            tls_ca=args.tls_ca,
            users=dict(args.user),
            queue_capacity=args.queue_capacity or 0,
            queue_resume=args.queue_resume,
            queue_capacity_bytes=args.queue_capacity_bytes or 0,
            queue_resume_bytes=args.queue_resume_bytes,
            queue_limits=queue_limits,
            idle_timeout=args.idle_timeout,
            trace=args.trace,
            websocket_port=args.websocket,
            namespace=_namespace(args),
        )
        bus.on_death = died
        bus.start()
    except (OSError, ValueError) as exc:
        print(f"amqp1 bus: {exc}", file=sys.stderr)
        return 1
    websocket = f" websocket={bus.websocket_address}" if bus.websocket_address else ""
    print(f"listening on {bus.address} mode={bus.mode}{websocket}", flush=True)
    print(NOTICE, flush=True)
    while signal.sigwait(signals) == signal.SIGHUP and not deaths:
        known = _reload(bus, args.queue_limits, known)
    bus.stop()
    for error in deaths:
        print(f"amqp1 bus: the bus has died: {error}", file=sys.stderr)
    return 1 if deaths else 0
