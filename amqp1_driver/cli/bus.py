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

from amqp1_driver.bus import MODES, Bus

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
    add("--trace", action="store_true", help="write every frame to standard error")


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
