# SPDX-License-Identifier: Apache-2.0

"""A plain notification listener that takes a number of messages and prints the rate.

Needs oslo.messaging only: it also runs, as a file, in environments that lack this package.

    python ingest_listener.py URL TOPIC COUNT      COUNT 0: only have the queue made
"""

import sys
import threading
import time

import oslo_messaging as om
from oslo_config import cfg

WAIT = 300.0


class Endpoint:
    """Counts; ``first`` and ``last`` are when the first and the last came."""

    def __init__(self, count):
        self.left = count
        self.first = self.last = 0.0
        self.done = threading.Event()
        self._lock = threading.Lock()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        with self._lock:
            now = time.monotonic()
            self.first = self.first or now
            self.left -= 1
            if not self.left:
                self.last = now
                self.done.set()


def main(url, topic, count):
    conf = cfg.ConfigOpts()
    conf([])
    transport = om.get_notification_transport(conf, url)
    endpoint = Endpoint(int(count))
    listener = om.get_notification_listener(
        transport, [om.Target(exchange="openstack", topic=topic)], [endpoint], executor="threading"
    )
    listener.start()
    if endpoint.left and not endpoint.done.wait(WAIT):
        raise SystemExit(f"{endpoint.left} messages have not come within {WAIT:g} s")
    listener.stop()
    listener.wait()
    transport.cleanup()
    if endpoint.last:
        print(f"rate {(int(count) - 1) / (endpoint.last - endpoint.first):.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
