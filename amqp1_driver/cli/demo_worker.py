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

"""An RPC server of ``amqp1 demo``, in a process of its own.

Told by one line of JSON on standard input what to serve, so that no password is seen in the
list of processes; each further line releases the calls that are being held; the end of the
input, which comes with the end of the demonstration whatever ended it, ends the process.
What it does it tells by lines of JSON on standard output.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from typing import Any

import oslo_messaging
from oslo_config import cfg

#: a held call is let go after so many seconds at the latest
HOLD_SECONDS = 10.0

_output = threading.Lock()


def configuration() -> Any:
    """An application's own configuration, without any file."""
    conf = cfg.ConfigOpts()
    conf([], project="amqp1-demo", default_config_files=[], default_config_dirs=[])
    return conf


def set_up_logging(verbose: bool) -> None:
    """The driver's log to standard error: all of it, or what a failure may be explained by."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="[%(process)d] %(levelname)s %(message)s")


def tell(event: str, **fields: Any) -> None:
    """One event for the demonstration."""
    with _output:
        print(json.dumps({"event": event, **fields}), flush=True)


class Endpoint:
    """What the servers offer. Threads of the server's executor.

    :param name: of the server
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._gate = threading.Event()

    def release(self) -> None:
        """Let the calls go that are being held."""
        gate, self._gate = self._gate, threading.Event()
        gate.set()

    def add(self, ctxt: dict[str, Any], a: int, b: int) -> dict[str, Any]:
        """A call with a result."""
        return {"sum": a + b, "server": self._name, "request": ctxt.get("request")}

    def note(self, ctxt: dict[str, Any], number: int) -> None:
        """A cast: nobody waits for it."""
        tell("cast", number=number, server=self._name)

    def announce(self, ctxt: dict[str, Any], number: int) -> None:
        """A fanout cast: every server gets it."""
        tell("fanout", number=number, server=self._name)

    def hold(self, ctxt: dict[str, Any], number: int) -> str:
        """A call that takes longer than its caller wants to wait."""
        gate = self._gate
        tell("hold", number=number, server=self._name)
        gate.wait(HOLD_SECONDS)
        return self._name

    def find(self, ctxt: dict[str, Any], key: str) -> None:
        """A call that fails, which the server expects: it does not log it as an error."""
        try:
            raise LookupError(f"{self._name} has no {key}")
        except LookupError:
            raise oslo_messaging.ExpectedException from None


def main() -> int:
    """Serve until standard input ends."""
    # ^C reaches the whole group of processes: the demonstration ends this one in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return 0
    set_up_logging(order["verbose"])
    transport = oslo_messaging.get_rpc_transport(configuration(), url=order["url"])
    endpoint = Endpoint(order["server"])
    target = oslo_messaging.Target(
        exchange=order["exchange"], topic=order["topic"], server=order["server"]
    )
    server = oslo_messaging.get_rpc_server(transport, target, [endpoint], executor="threading")
    server.start()
    tell("ready", server=order["server"], pid=os.getpid())
    for _ in sys.stdin:
        endpoint.release()
    endpoint.release()
    server.stop()
    server.wait()
    transport.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main())
