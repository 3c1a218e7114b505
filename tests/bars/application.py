# SPDX-License-Identifier: Apache-2.0
"""An application that uses oslo.messaging as told on standard input; see `workers`.

Each line is [number, command, arguments]; the answer is [number, error or null, result]. Every
command runs in a thread of its own, so that one may wait while another works.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from typing import Any

import oslo_messaging as om

from tests.bars import forks, process, restarting
from tests.bars.ledger import Ledger, Tally
from tests.bars.support import configuration
from tests.bars.traffic import Traffic


class Endpoint:
    """Methods of the RPC server and of the notification listener.

    :param pause: seconds that each message takes
    """

    def __init__(self, ledger: Ledger, tally: Tally, pause: float) -> None:
        self._ledger = ledger
        self._tally = tally
        self._pause = pause
        self._never = threading.Event()

    def take(self, ctxt: dict[str, Any], kind: str, key: str) -> str:
        self._ledger.note(kind, key)
        return key

    def number(self, ctxt: dict[str, Any], number: int) -> None:
        self._never.wait(self._pause)
        self._tally.note(number)

    def identify(self, ctxt: dict[str, Any], text: str) -> list[Any]:
        return [os.getpid(), text]

    def info(
        self,
        ctxt: dict[str, Any],
        publisher_id: str,
        event_type: str,
        payload: dict[str, Any],
        metadata: dict[str, Any],
    ) -> None:
        self._ledger.note("notify", payload["key"])


class Application:
    """The commands. Arguments and results are those of JSON; durations in seconds."""

    def __init__(self) -> None:
        self._rpc: Any = None
        self._notifications: Any = None
        self._servers: list[Any] = []
        self._traffic: Traffic | None = None
        self._ledger = Ledger()
        self._tally = Tally(0)
        self._before = process.Leftovers()
        self._topic = ""
        self._restarting: dict[str, restarting.Server] = {}
        self._loads: list[restarting.Load] = []

    # -- life ---------------------------------------------------------------------

    def open(self, url: str, topic: str, options: dict[str, Any], pool: int = 4) -> None:
        """Makes transports; nothing connects as yet."""
        self._before = process.Leftovers()
        self._topic = topic
        conf = configuration(**options)
        self._rpc = om.get_rpc_transport(conf, url)
        self._notifications = om.get_notification_transport(conf, url)
        from oslo_messaging import server

        conf.register_opts(server._pool_opts)
        conf.set_override("executor_thread_pool_size", pool)

    def use_path(self, name: str) -> None:
        """Have deliveries served by this implementation, before the first use."""
        from amqp1_driver.engine import connection, deliveries, speedups

        paths = {"speedups": speedups.SpeedupDeliveries, "deliveries": deliveries.ProtonDeliveries}
        connection._BEST = paths[name]()

    def close(self) -> list[str]:
        """Cleans up; the threads and descriptors that are left over."""
        for server in self._servers:
            server.stop()
            server.wait()
        self._servers.clear()
        self._rpc.cleanup()
        self._notifications.cleanup()
        self._rpc = self._notifications = self._traffic = None
        return self._before.find(3.0)

    # -- servers ------------------------------------------------------------------

    def serve(self, name: str, numbers: int = 0, pause: float = 0.0) -> None:
        """Starts an RPC server and a notification listener."""
        self._tally = Tally(numbers)
        endpoint = Endpoint(self._ledger, self._tally, pause)
        self._servers = [
            om.get_rpc_server(
                self._rpc,
                om.Target(topic=self._topic, server=name),
                [endpoint],
                executor="threading",
            ),
            om.get_notification_listener(
                self._notifications,
                [om.Target(topic=self._topic)],
                [endpoint],
                executor="threading",
            ),
        ]
        for server in self._servers:
            server.start()

    def receives(self, since: float, timeout: float) -> list[str]:
        """The kinds of which nothing has been received since then."""
        return self._ledger.wait_later(("call", "cast", "fanout", "notify"), since, timeout)

    def lacks(self, kind: str, keys: list[str], timeout: float) -> list[str]:
        """Those that have not been received."""
        return self._ledger.wait_all(kind, keys, timeout)

    def repeated(self) -> dict[str, dict[str, list[float]]]:
        """What has been received more than once."""
        return self._ledger.repeated()

    def tally(self, count: int, timeout: float) -> dict[str, int]:
        """What has become of numbered casts."""
        return self._tally.wait(count, timeout)

    # -- servers that are restarted -----------------------------------------------

    def serve_book(self, name: str, path: str, topic: str = "") -> None:
        """Starts an RPC server that writes what it runs to a file."""
        self._restarting[name] = restarting.Server(self._rpc, topic or self._topic, name, path)

    def wait_for(self, name: str, count: int) -> None:
        """Until it has run so many messages more."""
        self._restarting[name].wait_for(count)

    def restart(self, name: str, times: int) -> None:
        """Stops it in order and starts it again, so often."""
        self._restarting[name].restart(times)

    def stop_books(self) -> None:
        """Stops all of these."""
        while self._restarting:
            self._restarting.popitem()[1].stop()

    def load(
        self, path: str, threads: int, topic: str = "", timeout: float = restarting.TIMEOUT
    ) -> None:
        """Starts to cast and call."""
        self._loads.append(restarting.Load(self._rpc, topic or self._topic, path, threads, timeout))

    def stop_loads(self) -> int:
        """Ends that; how many threads hang."""
        return sum(load.stop() for load in self._loads)

    # -- clients ------------------------------------------------------------------

    def start_traffic(self, timeout: float) -> None:
        self._traffic = Traffic(self._rpc, self._notifications, self._topic, timeout)

    def through(self, count: int, timeout: float) -> list[str]:
        """The kinds of messages of which, from now on, fewer than that have success."""
        assert self._traffic is not None
        return self._traffic.wait_through(count, timeout)

    def stop_traffic(self) -> dict[str, Any]:
        assert self._traffic is not None
        return self._traffic.stop()

    def cast_numbers(self, first: int, last: int, threads: int) -> dict[str, Any]:
        """Casts numbers from first to last, shared out among threads."""
        client = om.get_rpc_client(self._rpc, om.Target(topic=self._topic))
        errors: list[str] = []

        def run(offset: int) -> None:
            try:
                for number in range(first + offset, last, threads):
                    client.cast({}, "number", number=number)
            except Exception as error:
                errors.append(f"{number}: {error}")

        began = time.monotonic()
        started = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return {"errors": errors, "seconds": time.monotonic() - began}

    def fork(self, children: int, calls: int) -> dict[str, Any]:
        """Calls from this process, then from forked ones and this one at the same time."""
        return forks.run(self._rpc, self._topic, children, calls)

    # -- memory -------------------------------------------------------------------

    def reset_peak(self) -> int:
        return process.reset_peak()

    def peak(self) -> int:
        return process.peak()


def main(application: Any) -> None:
    """Run the commands that come on standard input until it ends.

    :param application: its methods are the commands
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s",
    )
    lock = threading.Lock()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def run(number: int, command: str, arguments: dict[str, Any]) -> None:
        try:
            answer = [number, None, getattr(application, command)(**arguments)]
        except BaseException:
            answer = [number, traceback.format_exc(), None]
        with lock:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    for line in sys.stdin:
        threading.Thread(target=run, args=json.loads(line), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main(Application())
