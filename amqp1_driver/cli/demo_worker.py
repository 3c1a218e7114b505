# SPDX-License-Identifier: Apache-2.0

"""An RPC server of ``amqp1 demo``, in a process of its own.

The first line of standard input, in JSON, says what to serve; so the list of processes shows no
password. Each further line releases the calls that the server holds. The process ends when standard
input ends, which happens when the demonstration ends, whatever the reason. The server reports its
events by lines of JSON on standard output.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from typing import Any

import oslo_messaging
from oslo_config import cfg

#: seconds after which a held call is answered at the latest
HOLD_SECONDS = 10.0

_output = threading.Lock()


def configuration() -> Any:
    """Return an application's own configuration, without any file."""
    conf = cfg.ConfigOpts()
    conf([], project="amqp1-demo", default_config_files=[], default_config_dirs=[])
    return conf


def set_up_logging() -> None:
    """Write the log to standard error, from INFO on."""
    logging.basicConfig(level=logging.INFO, format="[%(process)d] %(levelname)s %(message)s")


def report(kind: str, **fields: Any) -> None:
    """Send an event to the demonstration. Any thread."""
    with _output:
        print(json.dumps({"kind": kind, "fields": fields}), flush=True)


class Endpoint:
    """The methods that the servers offer. Threads of the server's executor.

    :param name: name of the server
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._gate = threading.Event()

    def release(self) -> None:
        """Let the held calls return. Main thread."""
        gate, self._gate = self._gate, threading.Event()
        gate.set()

    def add(self, ctxt: dict[str, Any], a: int, b: int) -> dict[str, Any]:
        """Answer a call with a sum."""
        return {"sum": a + b, "server": self._name, "request": ctxt.get("request")}

    def note(self, ctxt: dict[str, Any], number: int) -> None:
        """Report a cast, for which no caller waits."""
        report("cast", number=number, server=self._name)

    def announce(self, ctxt: dict[str, Any], number: int) -> None:
        """Report a fanout cast, which every server receives."""
        report("fanout", number=number, server=self._name)

    def hold(self, ctxt: dict[str, Any], number: int) -> str:
        """Hold a call until ``release``, which is longer than its caller waits."""
        gate = self._gate
        report("hold", number=number, server=self._name)
        gate.wait(HOLD_SECONDS)
        return self._name

    def find(self, ctxt: dict[str, Any], key: str) -> None:
        """Fail with an exception that the server expects, and does not log as an error."""
        try:
            raise LookupError(f"{self._name} has no {key}")
        except LookupError:
            raise oslo_messaging.ExpectedException from None


def serve(name: str, url: str, exchange: str, topic: str, verbose: bool) -> None:
    """Serve until standard input ends."""
    if verbose:
        set_up_logging()
    transport = oslo_messaging.get_rpc_transport(configuration(), url=url)
    endpoint = Endpoint(name)
    target = oslo_messaging.Target(exchange=exchange, topic=topic, server=name)
    server = oslo_messaging.get_rpc_server(transport, target, [endpoint], executor="threading")
    server.start()
    report("ready", server=name)
    for _ in sys.stdin:
        endpoint.release()
    endpoint.release()
    server.stop()
    server.wait()
    transport.cleanup()


def main() -> None:
    """Serve as the first line orders; report the error that prevents it."""
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return
    try:
        serve(**order)
    except Exception as error:
        text = traceback.format_exception_only(error)[-1].strip()
        report("failed", server=order["name"], text=text)
        raise


if __name__ == "__main__":
    main()
