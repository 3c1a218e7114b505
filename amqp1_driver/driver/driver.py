# SPDX-License-Identifier: Apache-2.0

"""The transport driver that oslo.messaging loads for ``amqp://``.

Lives on application threads. The driver connects at its first use, and each process has a client
of its own: services fork after they have made their transports.
"""

import importlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from amqp1_driver import codec, compat, exceptions, options
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.client import credentials
from amqp1_driver.connection.operation import Kind

if TYPE_CHECKING:
    from amqp1_driver.client.client import Client
    from amqp1_driver.connection.subscription import Subscription
    from amqp1_driver.driver.delivery_queue import DeliveryQueue

LOG = exceptions.logger(__name__)

# Import these now, not at the first use: if a process forks while another thread imports a module,
# the child inherits the module's lock, and no thread of the child releases it.
try:
    import encodings.idna  # noqa: F401 (name lookups)

    import oslo_messaging.exceptions  # noqa: F401

    from amqp1_driver.driver import listener, reporting  # noqa: F401
except ImportError:
    pass  # proton is missing: Amqp1Driver() says what to do

#: most targets in each cache of destinations; the driver clears a full cache
CACHE_LIMIT = 20000
#: service -> purpose of the transport in the bus's list of connections
_PURPOSES = {Service.RPC: "rpc", Service.NOTIFY: "notifications"}

_drivers: "weakref.WeakSet[Amqp1Driver]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Drop the parent's client, and replace the lock, which another thread may have held."""
    for driver in list(_drivers):
        driver._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _preload(settings: options.Settings, hosts: tuple[options.Host, ...]) -> None:
    """Import modules that only these settings need; the code that uses a missing one reports it."""
    names = []
    if any(settings.tunnel.websocket(host.port) for host in hosts):
        names.append("amqp1_driver.eventloop.websocket")
    if settings.tunnel.proxy:
        names.append("h11")
    if settings.telemetry.port:
        names.append("amqp1_driver.telemetry.prometheus")
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


class Destinations(dict[tuple[str | None, str, str | None, bool | None], Destination]):
    """The one :class:`Destination` of each target; other caches use this object as key.

    The keys are exchange, topic, server and fanout of a target.
    """

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    def __missing__(self, key: tuple[str | None, str, str | None, bool | None]) -> Destination:
        if len(self) >= CACHE_LIMIT:
            self.clear()
        exchange, topic, server, fanout = key
        found = self[key] = Destination(self._service, exchange, topic, server, bool(fanout))
        return found


class Amqp1Driver(compat.BaseDriver):  # type: ignore[misc]
    """The AMQP 1.0 driver of oslo.messaging.  Application threads.

    :param conf: the application's configuration
    :param url: the transport URL; options in its query override ``conf``
    :param default_exchange: exchange of targets without one
    :param allowed_remote_exmods: modules whose exceptions the driver may raise from replies
    """

    def __init__(
        self,
        conf: Any,
        url: Any,
        default_exchange: str | None = None,
        allowed_remote_exmods: list[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        options.register_upstream_groups(conf)
        self._settings = options.load(conf, url)
        compat.check_proton(self._settings.security.sasl_mechanisms)
        self._hosts = options.hosts(url, self._settings)
        credentials.check(self._settings, self._hosts)
        _preload(self._settings, self._hosts)
        self._virtual_host = options.virtual_host(url)
        self._exchange = default_exchange or options.default_exchange_for(conf)
        self._rpc, self._notify = Destinations(Service.RPC), Destinations(Service.NOTIFY)
        self._lock = threading.Lock()
        self._client: Client | None = None
        _drivers.add(self)

    # -- sending -----------------------------------------------------------------

    def send(
        self,
        target: Any,
        ctxt: dict[str, Any],
        message: Any,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: Any = None,
    ) -> Any:
        """Send an RPC request; with ``wait_for_reply`` wait for the reply.

        :param timeout: seconds; None: option ``default_send_timeout``
        :returns: the value in the reply; None without ``wait_for_reply``
        :raises MessagingTimeout: ``timeout`` was given and has passed
        :raises MessageUndeliverable: transport option ``at_least_once`` is set, and no queue or
            receiver took the message
        :raises MessageDeliveryFailure: any other failure to deliver
        :raises ValueError: the message or the context can't be encoded in JSON, or one of them is
            no JSON object; nothing was sent
        :raises Exception: the exception in the reply
        """
        destination = self._rpc[target.exchange, target.topic, target.server, target.fanout]
        try:
            body = codec.dump_request(message, ctxt, call_monitor_timeout=call_monitor_timeout)
        except ValueError as error:
            raise ValueError(f"request to {destination.routing_key}: {error}") from error
        kind = Kind.CALL if wait_for_reply else Kind.CAST
        reply = self._deliver(
            kind,
            destination,
            body,
            message,
            timeout,
            self._settings.delivery.default_send_timeout,
            retry,
            call_monitor_timeout,
            transport_options is not None and bool(transport_options.at_least_once),
        )
        return None if reply is None else self._result(reply)

    def send_notification(
        self,
        target: Any,
        ctxt: dict[str, Any],
        message: Any,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send a notification; return when the bus has accepted it.

        :raises MessageDeliveryFailure: the bus has not accepted it
        :raises ValueError: see :meth:`send`
        """
        destination = self._notify[target.exchange, target.topic, target.server, target.fanout]
        try:
            body = codec.dump_request(message, ctxt, envelope=version >= 2.0)
        except ValueError as error:
            raise ValueError(f"notification to {destination.routing_key}: {error}") from error
        self._deliver(
            Kind.NOTIFY,
            destination,
            body,
            message,
            None,
            self._settings.delivery.default_notify_timeout,
            retry,
            None,
            False,
        )

    def _deliver(
        self,
        kind: Kind,
        destination: Destination,
        body: bytes,
        message: Any,
        timeout: float | None,
        default: float,
        retry: int | None,
        monitor: float | None,
        at_least_once: bool,
    ) -> codec.Message | None:
        client = self._client
        if client is None or client.dead:
            client = self._ready(destination.service)
        try:
            return client.request(
                kind,
                destination,
                body,
                timeout=default if timeout is None else timeout,
                retry=retry,
                monitor=monitor,
                mandatory=at_least_once,
            )
        except exceptions.AmqpError as error:
            raise exceptions.to_oslo(
                error,
                with_timeout=timeout is not None,
                at_least_once=at_least_once,
                exchange=destination.exchange or self._exchange or "",
                routing_key=destination.routing_key,
                message=message,
            ) from error

    def _result(self, reply: codec.Message) -> Any:
        try:
            body = reply.body
            if reply.content_encoding:
                body = codec.decompress(
                    body, reply.content_encoding, self._settings.delivery.max_message_size
                )
            return codec.load_reply(body, self._allowed_remote_exmods)
        except exceptions.DecodeError as error:
            raise exceptions.to_oslo(error, with_timeout=False) from error

    # -- receiving ---------------------------------------------------------------

    def listen(self, target: Any, batch_size: int, batch_timeout: float | None) -> Any:
        """Subscribe an RPC server to its name, its topic, and the topic's fanout."""
        destination = Destination(Service.RPC, target.exchange, target.topic, target.server)
        return self._listen(
            Service.RPC,
            (destination,),
            None,
            self._settings.delivery.rpc_server_credit,
            batch_size,
            batch_timeout,
        )

    def listen_for_notifications(
        self,
        targets_and_priorities: Any,
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> Any:
        """Subscribe to ``topic.priority`` of each target; each pool gets every message.

        :raises NotImplementedError: the bus can't provide ``pool``, for example since it stores no
            messages
        """
        destinations = dict.fromkeys(
            Destination(Service.NOTIFY, target.exchange, f"{target.topic}.{priority}")
            for target, priority in targets_and_priorities
        )
        return self._listen(
            Service.NOTIFY,
            tuple(destinations),
            pool,
            self._settings.delivery.notify_server_credit,
            batch_size,
            batch_timeout,
        )

    def _listen(
        self,
        service: Service,
        destinations: tuple[Destination, ...],
        pool: str | None,
        credit: int,
        batch_size: int,
        batch_timeout: float | None,
    ) -> Any:
        from amqp1_driver.driver.listener import Listener, ListenerAdapter

        load = codec.load_request if service is Service.RPC else codec.load_notification

        # the server settles a batch as a whole: with credit for less than two batches, a batch
        # would never fill up
        credit = max(credit, 2 * (batch_size or 1))

        def subscribe(queue: "DeliveryQueue") -> "tuple[Client, Subscription]":
            client = self._ready(service)
            return client, client.subscribe(
                destinations,
                pool,
                credit,
                (batch_size or 1) > 1,
                queue,
                self._settings.delivery.default_send_timeout,
            )

        try:
            listener = Listener(
                subscribe,
                self._settings.delivery.duplicate_window,
                load,
                self._settings.delivery.max_message_size,
            )
        except exceptions.UnsupportedFeature as error:
            raise NotImplementedError(str(error)) from error
        except exceptions.AmqpError as error:
            raise exceptions.to_oslo(error, with_timeout=False) from error
        return ListenerAdapter(listener, batch_size, batch_timeout)

    # -- life --------------------------------------------------------------------

    def require_features(self, requeue: bool = True) -> None:
        """Accept every requirement: the driver has all features."""

    def cleanup(self) -> None:
        """Close the connection and end the I/O thread; blocks until both are done."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ready(self, service: Service) -> "Client":
        """Return the client of this process; make one at the first use, or if its loop has died.

        The client's purpose is the service of its first use: each transport of oslo.messaging is
        for RPC or for notifications, but does not say which.
        """
        client = self._client
        if client is not None and not client.dead:
            return client
        with self._lock:
            if self._client is None or self._client.dead:
                client = self._make_client(_PURPOSES.get(service, ""))
                client.start()
                self._client = client
            return self._client

    def _make_client(self, purpose: str) -> "Client":
        # imported late: the client needs proton, and __init__ reports a missing proton
        arguments = self._hosts, self._settings, self._virtual_host, self._exchange, purpose
        if self._settings.telemetry.wanted:
            from amqp1_driver.driver.reporting import observed_client

            return observed_client(*arguments)
        from amqp1_driver.client.client import Client

        return Client(*arguments)

    def _forked(self) -> None:
        if self._client is not None:
            LOG.info(
                "Process %d was forked after its transport was used: it gets a connection "
                "of its own",
                os.getpid(),
            )
        self._client = None
        self._lock = threading.Lock()
