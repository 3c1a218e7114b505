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

"""``amqp1 bus``: run the embedded AMQP 1.0 bus in the foreground."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from amqp1_driver.bus import MODES, Bus, Namespace
from amqp1_driver.bus.namespace import parse_rule, parse_topic

NOTICE = "This bus is for development and tests only: it keeps messages in memory."


def _endpoint(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _user(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not separator or not name:
        raise argparse.ArgumentTypeError("a user is NAME:PASSWORD")
    return name, password


def _rule(text: str) -> Any:
    try:
        return parse_rule(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _topic(text: str) -> Any:
    try:
        return parse_topic(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def add_parser(subparsers: Any) -> None:
    """Describe the subcommand."""
    parser = subparsers.add_parser(
        "bus",
        help="run an AMQP 1.0 bus for development and tests",
        description="An AMQP 1.0 bus for development and tests: a router, which forwards, or a "
        "broker, which stores. Its first line of output says where it listens.",
    )
    add = parser.add_argument
    add("--listen", type=_endpoint, default=("127.0.0.1", 5672), metavar="HOST:PORT",
        help="where to listen; port 0 = any (default: 127.0.0.1:5672)")  # fmt: skip
    add("--websocket", type=int, default=None, metavar="PORT",
        help="speak AMQP over WebSocket on this port, too; 0 = any")  # fmt: skip
    add("--mode", choices=MODES, default="router", help="default: router")
    add("--tls-cert", metavar="F", help="PEM file with the certificate: TLS only")
    add("--tls-key", metavar="F", help="PEM file with its key, if not in the same file")
    add("--tls-ca", metavar="F", help="require client certificates signed by this CA")
    add("--user", type=_user, action="append", default=[], metavar="NAME:PASSWORD",
        help="require SASL PLAIN with one of these users")  # fmt: skip
    add("--queue-capacity", type=int, default=0, metavar="N",
        help="broker: messages at which a queue's producers get no more credit")  # fmt: skip
    add("--queue-resume", type=int, default=None, metavar="N",
        help="broker: messages at which they get it again (default: 3/4 of it)")  # fmt: skip
    add("--idle-timeout", type=float, default=16.0, metavar="S",
        help="seconds of silence after which a peer is given up (default: 16)")  # fmt: skip
    _add_namespace(parser)
    add("--trace", action="store_true", help="write every frame to standard error")


def _add_namespace(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("--mode servicebus").add_argument
    add("--queue", action="append", default=[], metavar="NAME",
        help="a queue that exists; no entity comes into being by its use")  # fmt: skip
    add("--session-queue", action="append", default=[], metavar="NAME",
        help="a queue that requires sessions")  # fmt: skip
    add("--topic", type=_topic, action="append", default=[], metavar="NAME[:SUB,SUB]",
        help="a topic with its subscriptions")  # fmt: skip
    add("--sas-rule", type=_rule, action="append", default=[], metavar="NAME:KEY[:RIGHTS]",
        help="a rule whose key signs tokens; RIGHTS of Send,Listen,Manage")  # fmt: skip
    add("--jwt-secret", default=None, metavar="KEY", help="key of JSON Web Tokens (HS256)")
    add("--lock-duration", type=float, default=60.0, metavar="S",
        help="seconds for which a delivered message is locked (default: 60)")  # fmt: skip
    add("--max-delivery-count", type=int, default=10, metavar="N",
        help="failed deliveries that make a dead letter (default: 10)")  # fmt: skip
    add("--token-grace", type=float, default=20.0, metavar="S",
        help="seconds for which a connection may be without a token (default: 20)")  # fmt: skip


def _namespace(args: argparse.Namespace) -> Namespace | None:
    if args.mode != "servicebus":
        return None
    return Namespace(
        queues=tuple(args.queue),
        session_queues=tuple(args.session_queue),
        topics=dict(args.topic),
        rules=dict(args.sas_rule),
        jwt_secret=args.jwt_secret,
        lock_duration=args.lock_duration,
        max_delivery_count=args.max_delivery_count,
        token_grace=args.token_grace,
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; 0, or 1 if the bus could not be started."""
    # Blocked before the bus's thread starts, so that only sigwait sees them.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    host, port = args.listen
    try:
        bus = Bus(
            args.mode,
            host,
            port,
            tls_cert=args.tls_cert,
            tls_key=args.tls_key,
            tls_ca=args.tls_ca,
            users=dict(args.user),
            queue_capacity=args.queue_capacity,
            queue_resume=args.queue_resume,
            idle_timeout=args.idle_timeout,
            trace=args.trace,
            websocket_port=args.websocket,
            namespace=_namespace(args),
        ).start()
    except (OSError, ValueError) as exc:
        print(f"amqp1 bus: {exc}", file=sys.stderr)
        return 1
    websocket = f" websocket={bus.websocket_address}" if bus.websocket_address else ""
    print(f"listening on {bus.address} mode={bus.mode}{websocket}", flush=True)
    print(NOTICE, flush=True)
    signal.sigwait(signals)
    bus.stop()
    return 0
