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

"""The transport driver that oslo.messaging loads for ``amqp://``.

Nothing connects before the first use, and each process has a client of its
own: services fork after they made their transports.
"""

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from amqp1_driver import codec, compat, credentials, exceptions, options
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.protocol.operation import Kind

if TYPE_CHECKING:
    from amqp1_driver.client import Client
    from amqp1_driver.delivery_queue import DeliveryQueue
    from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)


#: targets that are remembered
CACHE_LIMIT = 20000

_drivers: "weakref.WeakSet[Amqp1Driver]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The parent's client, and a lock that another thread may have held, are not ours."""
    for driver in list(_drivers):
        driver._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Amqp1Driver(compat.BaseDriver):  # type: ignore[misc]
    """oslo.messaging over AMQP 1.0.  Application threads.

    :param conf: the application's configuration
    :param url: the transport URL; options in its query override ``conf``
    :param default_exchange: for targets without one
    :param allowed_remote_exmods: modules whose exceptions may be raised here
    """

    def __init__(self, conf: Any, url: Any, default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        options.register_upstream_groups(conf)
        self._settings = options.load(conf, url)
        compat.check_proton(self._settings.sasl_mechanisms)
        self._hosts = options.hosts(url, self._settings)
        credentials.check(self._settings, self._hosts)
        self._virtual_host = options.virtual_host(url)
        self._exchange = default_exchange or options.default_exchange_for(conf)
        self._rpc: dict[Any, Destination] = {}
        self._notify: dict[Any, Destination] = {}
        self._lock = threading.Lock()
        self._client: Client | None = None
        _drivers.add(self)

    # -- sending -----------------------------------------------------------------

    def send(self, target: Any, ctxt: dict[str, Any], message: Any,
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """Send an RPC request; with ``wait_for_reply`` return what the server did.

        :raises MessagingTimeout: ``timeout`` was given and has passed
        :raises MessageUndeliverable: at_least_once was asked and nobody took it
        :raises MessageDeliveryFailure: any other failure to deliver
        """
        destination = self._destination(Service.RPC, self._rpc, target)
        body = codec.dump_request(message, ctxt, call_monitor_timeout=call_monitor_timeout)
        kind = Kind.CALL if wait_for_reply else Kind.CAST
        reply = self._deliver(kind, destination, body, message, timeout,
                              self._settings.default_send_timeout, retry, call_monitor_timeout,
                              bool(getattr(transport_options, "at_least_once", False)))
        if reply is None:
            return None
        return self._result(reply)

    def send_notification(self, target: Any, ctxt: dict[str, Any], message: Any,
                          version: float, retry: int | None = None) -> None:
        """Send a notification; returns when the bus has taken it over.

        :raises MessageDeliveryFailure: it did not
        """
        destination = self._destination(Service.NOTIFY, self._notify, target)
        body = codec.dump_request(message, ctxt, envelope=version >= 2.0)
        self._deliver(Kind.NOTIFY, destination, body, message, None,
                      self._settings.default_notify_timeout, retry, None, False)

    @staticmethod
    def _destination(service: Service, known: dict[Any, Destination],
                     target: Any) -> Destination:
        """One object for all messages to a target: it is the key of the caches."""
        key = (target.exchange, target.topic, target.server, target.fanout)
        found = known.get(key)
        if found is None:
            if len(known) >= CACHE_LIMIT:
                known.clear()
            found = known[key] = Destination(service, target.exchange, target.topic,
                                             target.server, bool(target.fanout))
        return found

    def _deliver(self, kind: Kind, destination: Destination, body: bytes, message: Any,
                 timeout: float | None, default: float, retry: int | None,
                 monitor: float | None, at_least_once: bool) -> codec.Message | None:
        try:
            return self._ready().request(
                kind, destination, body, timeout=default if timeout is None else timeout,
                retry=retry, monitor=monitor, mandatory=at_least_once)
        except exceptions.AmqpError as error:
            raise exceptions.to_oslo(
                error, with_timeout=timeout is not None, at_least_once=at_least_once,
                exchange=destination.exchange or self._exchange or "",
                routing_key=destination.routing_key, message=message) from error

    def _result(self, reply: codec.Message) -> Any:
        try:
            body = reply.body
            if reply.content_encoding:
                body = codec.decompress(body, reply.content_encoding)
            return codec.load_reply(body, self._allowed_remote_exmods)
        except exceptions.DecodeError as error:
            raise exceptions.to_oslo(error, with_timeout=False) from error

    # -- receiving ---------------------------------------------------------------

    def listen(self, target: Any, batch_size: int, batch_timeout: float | None) -> Any:
        """Subscribe an RPC server: to its name, its topic, and the topic's fanout."""
        destination = Destination(Service.RPC, target.exchange, target.topic, target.server)
        return self._listen((destination,), None, self._settings.rpc_server_credit, batch_size,
                            batch_timeout)

    def listen_for_notifications(self, targets_and_priorities: Any, pool: str | None,
                                 batch_size: int, batch_timeout: float | None) -> Any:
        """Subscribe to ``topic.priority`` of each target; each pool gets every message.

        :raises NotImplementedError: a pool, on a bus that stores nothing
        """
        destinations = dict.fromkeys(
            Destination(Service.NOTIFY, target.exchange, f"{target.topic}.{priority}")
            for target, priority in targets_and_priorities)
        return self._listen(tuple(destinations), pool, self._settings.notify_server_credit,
                            batch_size, batch_timeout)

    def _listen(self, destinations: tuple[Destination, ...], pool: str | None, credit: int,
                batch_size: int, batch_timeout: float | None) -> Any:
        from amqp1_driver.listener import Listener, ListenerAdapter

        # a batch is settled as a whole: with less credit than two of them it never fills
        credit = max(credit, 2 * (batch_size or 1))

        def subscribe(queue: "DeliveryQueue") -> "tuple[Client, Subscription]":
            client = self._ready()
            return client, client.subscribe(destinations, pool, credit, (batch_size or 1) > 1,
                                            queue, self._settings.default_send_timeout)

        try:
            listener = Listener(subscribe, self._settings.duplicate_window)
        except exceptions.UnsupportedFeature as error:
            raise NotImplementedError(str(error)) from error
        except exceptions.AmqpError as error:
            raise exceptions.to_oslo(error, with_timeout=False) from error
        return ListenerAdapter(listener, batch_size, batch_timeout)

    # -- life --------------------------------------------------------------------

    def require_features(self, requeue: bool = True) -> None:
        """All features are there."""

    def cleanup(self) -> None:
        """Close the connection and end the I/O thread; blocks until it is done."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ready(self) -> "Client":
        """The client of this process, made at its first use."""
        client = self._client
        if client is not None and not client.dead:
            return client
        with self._lock:
            if self._client is None or self._client.dead:
                client = self._make_client()
                client.start()
                self._client = client
            return self._client

    def _make_client(self) -> "Client":
        # late: it needs proton, and __init__ says what to do when that is missing
        arguments = self._hosts, self._settings, self._virtual_host, self._exchange
        if self._settings.telemetry.wanted:
            from amqp1_driver.reporting import observed_client

            return observed_client(*arguments)
        from amqp1_driver.client import Client

        return Client(*arguments)

    def _forked(self) -> None:
        if self._client is not None:
            LOG.info("Process %d was forked after its transport was used: it gets a connection "
                     "of its own", os.getpid())
        self._client = None
        self._lock = threading.Lock()
