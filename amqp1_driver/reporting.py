#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Records over the bus: telemetry as messages, by a connection of its own.

That connection is not observed, so that nothing is told of the telling.  Best effort: what can't
be sent in time is lost, and told as dropped with the next records.
"""

import dataclasses
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.client import Client
from amqp1_driver.observed import ObservedClient
from amqp1_driver.options import Host, Settings
from amqp1_driver.protocol.operation import Kind
from amqp1_driver.telemetry import shared
from amqp1_driver.telemetry.events import Record, to_lines
from amqp1_driver.telemetry.hub import Complaints, Consumer

LOG = logging.getLogger(__name__)

#: the topic's priority, which notifications have
PRIORITY = "info"
#: records in a message at most
MOST = 500
#: records that may wait
CAPACITY = 20000
#: how long a message may take, seconds
TIMEOUT = 5.0
#: and when the transport is being closed
CLOSING = 1.0


class BusSink:
    """A consumer: sends what it is given, on a thread of its own.

    :param client: makes the connection, which is closed at the end
    :param destination: where messages go
    """

    def __init__(self, client: Callable[[], Client], destination: Destination) -> None:
        self._make = client
        self._destination = destination
        self._queue: deque[Record] = deque()
        self._lock = threading.Lock()
        self._lost = 0
        self._closing = False
        self._wake = threading.Event()
        self._complaints = Complaints("sending telemetry over the bus")
        self._thread = threading.Thread(target=self._run, name="amqp1-telemetry-bus", daemon=True)
        self._thread.start()

    # -- told by the hub ---------------------------------------------------------------

    def take(self, records: Sequence[Record]) -> None:
        room = CAPACITY - len(self._queue)
        self._queue.extend(records[:max(0, room)])
        self._lose(records[max(0, room):])

    def _lose(self, records: Sequence[Record]) -> None:
        """They are told as dropped, and so is what they would have told."""
        if records:
            with self._lock:
                self._lost += sum(1 + record.batch for record in records)

    def tick(self) -> None:
        """What has come so far goes out."""
        if self._queue:
            self._wake.set()

    def close(self, timeout: float) -> None:
        """Send what waits, if it goes in time, and close the connection."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    # -- the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        client = self._make()
        client.start()
        try:
            last = False
            while not last:
                self._wake.wait()
                self._wake.clear()
                last = self._closing
                self._send_all(client)
        finally:
            client.close()

    def _send_all(self, client: Client) -> None:
        while self._queue:
            records = [self._queue.popleft() for _ in range(min(MOST, len(self._queue)))]
            with self._lock:
                lost, self._lost = self._lost, 0
            records[0] = records[0]._replace(batch=records[0].batch + lost)
            try:
                client.request(Kind.NOTIFY, self._destination, to_lines(records),
                               timeout=CLOSING if self._closing else TIMEOUT, retry=0)
            except exceptions.AmqpError as error:
                self._lose(records)
                self._complaints.failed(error)
                if self._closing:
                    return


def observed_client(hosts: tuple[Host, ...], settings: Settings, virtual_host: str | None,
                    default_exchange: str | None) -> ObservedClient:
    """A client that tells what it does to what the options ask for."""
    config = settings.telemetry
    arguments = hosts, settings, virtual_host, default_exchange
    more: dict[str, Callable[[], Consumer]] = {}
    if config.topic:
        destination = Destination(Service.NOTIFY, config.exchange or None,
                                  f"{config.topic}.{PRIORITY}")
        # what may be lost anyway is not worth a broker's disc
        own = dataclasses.replace(settings, durable=settings.durable - {Kind.NOTIFY.value})
        more["the bus sink"] = lambda: BusSink(
            lambda: Client(hosts, own, virtual_host, default_exchange), destination)
    # a transport to another bus has its own: records go where their messages went
    telemetry = shared.acquire(config, arguments if config.topic else None, more)
    try:
        return ObservedClient(telemetry, os.getpid(), *arguments)
    except BaseException:
        telemetry.release()
        raise
