# SPDX-License-Identifier: Apache-2.0

"""Telemetry records as messages on the bus, over a connection of their own.

That connection is not observed, so that reporting does not report on itself. Best effort: a record
that can't be sent in time is lost, and the next records count it as dropped. The telemetry
hub calls the sink on the hub's thread; the sink sends on a thread of its own.
"""

import dataclasses
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.client.client import Client
from amqp1_driver.client.observed import ObservedClient
from amqp1_driver.connection.operation import Kind
from amqp1_driver.options import Host, Settings
from amqp1_driver.telemetry import shared
from amqp1_driver.telemetry.events import Record, to_lines
from amqp1_driver.telemetry.hub import Complaints, Consumer

LOG = exceptions.logger(__name__)

#: priority of the notifications, which is the end of their topic
PRIORITY = "info"
#: most records in a message
MOST = 500
#: most records that wait to be sent
CAPACITY = 20000
#: seconds within which a message has to be sent
TIMEOUT = 5.0
#: seconds within which a message has to be sent while the application closes the transport
CLOSING = 1.0


class BusSink:
    """A telemetry consumer that sends its records over the bus, on a thread of its own.

    :param client: makes the client, which the thread closes at the end
    :param destination: destination of the messages
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

    # -- called by the hub -------------------------------------------------------------

    def take(self, records: Sequence[Record]) -> None:
        room = CAPACITY - len(self._queue)
        self._queue.extend(records[: max(0, room)])
        self._count_dropped(records[max(0, room) :])

    def _count_dropped(self, records: Sequence[Record]) -> None:
        """Count these records as dropped, and the dropped events that they would report."""
        if records:
            with self._lock:
                self._lost += sum(1 + record.dropped for record in records)

    def tick(self) -> None:
        """Have the thread send the records that have come so far."""
        if self._queue:
            self._wake.set()

    def close(self, timeout: float) -> None:
        """Send the waiting records if there is time, and close the connection.

        :param timeout: seconds to wait for the thread
        """
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
            records[0] = records[0]._replace(dropped=records[0].dropped + lost)
            try:
                client.request(
                    Kind.NOTIFY,
                    self._destination,
                    to_lines(records),
                    timeout=CLOSING if self._closing else TIMEOUT,
                    retry=0,
                )
            except exceptions.AmqpError as error:
                self._count_dropped(records)
                self._complaints.failed(error)
                if self._closing:
                    return


def observed_client(
    hosts: tuple[Host, ...],
    settings: Settings,
    virtual_host: str | None,
    default_exchange: str | None,
    purpose: str = "",
) -> ObservedClient:
    """Make a client that reports its events to the consumers that the options ask for."""
    config = settings.telemetry
    arguments = hosts, settings, virtual_host, default_exchange
    more: dict[str, Callable[[], Consumer]] = {}
    if config.topic:
        destination = Destination(
            Service.NOTIFY, config.exchange or None, f"{config.topic}.{PRIORITY}"
        )
        # not durable: records may be lost anyway, and need no place on a broker's disc
        delivery = dataclasses.replace(
            settings.delivery, durable=settings.delivery.durable - {Kind.NOTIFY.value}
        )
        own = dataclasses.replace(settings, delivery=delivery)
        more["the bus sink"] = lambda: BusSink(
            lambda: Client(hosts, own, virtual_host, default_exchange, "telemetry"), destination
        )
    # transports to different buses share no hub: records go to the bus of their messages
    telemetry = shared.acquire(config, arguments if config.topic else None, more)
    try:
        return ObservedClient(telemetry, os.getpid(), *arguments, purpose)
    except BaseException:
        telemetry.release()
        raise
