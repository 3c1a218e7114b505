# SPDX-License-Identifier: Apache-2.0

"""Mode of the bus that emulates Azure Service Bus; lives on the bus thread.

The sources are Azure's "AMQP 1.0 protocol guide" and the expectations of Microsoft's SDK. The
namespace names all entities. A link needs a token for its entity, which the client puts at
``$cbs``. SASL PLAIN with a rule and its key replaces the token.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from amqp1_driver.wire.types import WireError

from .behaviour import Behaviour
from .counters import Counters
from .engine import Engine
from .entities import (
    LOST,
    Incoming,
    Lock,
    LockQueue,
    SessionQueue,
    refused,
    tracked,
)
from .links import ACCEPTED, CREDIT, Consumer, Item, Link, Outcome, Producer, Refused, Transfer
from .messages import check_maps, read_group_id, read_header, unbatch
from .namespace import Namespace
from .requests import Claims, ClaimsNode, ManagementNode, RequestNode
from .sas import LISTEN, SEND, resource

CBS = "$cbs"
_MANAGEMENT = "/$management"
_DEAD_LETTERS = "/$deadletterqueue"


class ServiceBus(Behaviour):
    """Service Bus mode; lives on the bus thread.

    ``node`` of a producer is its list of queues or a RequestNode. ``node`` of a consumer is its
    queue or a RequestNode. ``context`` of a connection is its :class:`Claims`.
    """

    mode = "servicebus"
    #: The Open frame of the service has neither properties nor capabilities.
    product = None
    max_frame = 65536
    anonymous = ("MSSBCBS", "ANONYMOUS")

    def __init__(
        self,
        counters: Counters,
        namespace: Namespace,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(counters, clock)
        self.max_message_size = namespace.max_message_size
        self.largest_message = max(self.largest_message, namespace.max_message_size)
        self.namespace = namespace
        self.rules = namespace.known_rules
        self.wall = wall
        #: Path in lower case -> queue, subscription or dead-letter queue.
        self._queues: dict[str, LockQueue | SessionQueue] = {}
        #: Name in lower case -> queues of the subscriptions.
        self._topics: dict[str, list[LockQueue | SessionQueue]] = {}
        for name in namespace.queues:
            self._add(LockQueue, name)
        for name in namespace.session_queues:
            self._add(SessionQueue, name)
        for name, subscriptions in namespace.topics.items():
            self._topics[name.lower()] = [
                self._add(LockQueue, f"{name}/subscriptions/{s}") for s in subscriptions
            ]
        self._requests: dict[str, RequestNode] = {CBS: ClaimsNode(self)}
        for path, queue in self._queues.items():
            self._requests[path + _MANAGEMENT] = ManagementNode(queue)

    def _add(
        self, kind: type[LockQueue] | type[SessionQueue], name: str
    ) -> LockQueue | SessionQueue:
        """Create a queue or subscription, with its dead-letter queue."""
        dead_letters = LockQueue(f"{name}/$DeadLetterQueue", self, None)
        queue = kind(name, self, dead_letters)
        self._queues[dead_letters.name.lower()] = dead_letters
        self._queues[name.lower()] = queue
        return queue

    def known(self, path: str) -> bool:
        """Return whether the namespace has an entity or a node at a path in lower case."""
        return path in self._queues or path in self._topics or path in self._requests

    # -- connections and their claims ------------------------------------------

    def opened(self, engine: Engine) -> None:
        """Create the claims of a new connection.

        A connection without a known name must put its first token within ``token_grace`` seconds.
        """
        rule = self.rules.get(engine.user or "")
        claims = engine.context = Claims(rule.rights if rule is not None else frozenset())
        if claims.nobody:
            due = self.clock() + self.namespace.token_grace
            self.call_at(due, lambda: self._shut_out(engine))

    def _shut_out(self, engine: Engine) -> None:
        if engine.context.nobody and not engine.closed:
            grace = self.namespace.token_grace
            what = f"Unauthorized access. No token was put within {grace:g} seconds."
            engine.close("amqp:unauthorized-access", tracked(what))

    def check_links(self, engine: Engine) -> None:
        """Detach the links to which the connection has no right after a token has expired."""
        for link in engine.links:
            path = _path(link)
            if path != CBS and not engine.context.allow(path, _right(link)):
                link.detach(self.namespace.expired_condition, _unauthorized(link))

    def _admit(self, link: Link) -> str:
        """Return the path of the entity of a new link.

        :raises Refused: the connection has no right to the entity
        """
        path = _path(link)
        if path != CBS and not link.engine.context.allow(path, _right(link)):
            raise Refused("amqp:unauthorized-access", _unauthorized(link))
        return path

    # -- links ---------------------------------------------------------------

    def allowance(self, producer: Producer) -> int:
        return CREDIT - producer.held

    def new_address(self, link_name: str) -> str:
        """Refuse a dynamic node, because the service has none."""
        raise Refused("amqp:not-implemented", tracked("Dynamic sources are not supported."))

    def producer_attached(self, producer: Producer) -> None:
        """Connect a producer to a queue, to a topic or to a node that answers requests."""
        if producer.address is None:
            raise Refused("amqp:not-allowed", tracked("The target has no address."))
        path = self._admit(producer)
        if path in self._requests:
            producer.node = self._requests[path]
        elif path in self._topics:
            producer.node = self._topics[path]
        elif path in self._queues and not _receive_only(path):
            producer.node = [self._queues[path]]
        elif path in self._queues:
            raise Refused("amqp:not-allowed", tracked(f"Nothing can be sent to {path}."))
        else:
            raise _missing(producer)

    def producer_detached(self, producer: Producer) -> None:
        """Do nothing: the queues keep accepted messages."""

    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """Connect a consumer to a queue, to a subscription or to a node that answers requests."""
        path = self._admit(consumer)
        if path in self._requests:
            consumer.node = self._requests[path].attach(consumer)
        elif path in self._queues:
            consumer.node = self._queues[path].attach(consumer)
        elif path in self._topics:
            raise Refused("amqp:not-allowed", tracked(f"{path} is a topic: read a subscription."))
        else:
            raise _missing(consumer)

    def consumer_detached(self, consumer: Consumer) -> None:
        """Remove a consumer. Locks on messages outlive the link; a lock on a session does not."""
        consumer.node.detach(consumer)
        consumer.unsettled.clear()

    # -- messages ------------------------------------------------------------

    def transferred(self, transfer: Transfer) -> None:
        """Answer a request, or store a message; each subscription of a topic stores the message."""
        node = transfer.producer.node
        if isinstance(node, RequestNode):
            node.request(transfer)
            return
        size = len(transfer.data)
        if size > self.max_message_size:
            what = f"The message has {size} bytes, {self.max_message_size} are allowed."
            transfer.settle(refused("amqp:link:message-size-exceeded", tracked(what)))
            return
        try:
            messages = [self._read(data) for data in unbatch(transfer.data)]
        except WireError as exc:
            transfer.settle(refused("amqp:decode-error", str(exc)))
            return
        with_sessions = any(isinstance(queue, SessionQueue) for queue in node)
        if with_sessions and any(message.session_id is None for message in messages):
            what = "The SessionId was not set on a message, and the entity requires sessions."
            transfer.settle(refused("amqp:not-allowed", tracked(what)))
            return
        transfer.settle(ACCEPTED)
        for message in messages:
            for queue in node:
                queue.store(message)

    def _read(self, data: bytes) -> Incoming:
        ttl_ms = read_header(data).ttl_ms
        check_maps(data)
        expiry = self.clock() + ttl_ms / 1000 if ttl_ms else None
        return Incoming(data, expiry, read_group_id(data))

    def flow(self, consumer: Consumer) -> None:
        node = consumer.node
        if isinstance(node, RequestNode):
            node.flow(consumer)
        else:
            node.dispatch()

    def refusal(self, item: Item) -> Outcome | None:
        """Return the error for an outcome that comes after the loss of the message lock."""
        return LOST if isinstance(item, Lock) and not item.held else None

    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        item.settle(outcome)
        self.flow(consumer)

    def depth(self, address: str) -> int:
        """Return the number of messages in a queue, subscription, dead-letter queue or topic."""
        path = resource(address).path
        if path in self._topics:
            return sum(queue.depth for queue in self._topics[path])
        return self._queues[path].depth if path in self._queues else 0


def _path(link: Link) -> str:
    return resource(link.address or "").path


def _receive_only(path: str) -> bool:
    return path.endswith(_DEAD_LETTERS) or "/subscriptions/" in path


def _right(link: Link) -> str:
    """Return the right that a link needs.

    Requests to ``$management`` concern messages that the client reads, so they need Listen.
    """
    if isinstance(link, Producer) and not _path(link).endswith(_MANAGEMENT):
        return SEND
    return LISTEN


def _unauthorized(link: Link) -> str:
    return tracked(
        f"Unauthorized access. '{_right(link)}' claim(s) are required to perform this operation. "
        f"Resource: '{link.address}'."
    )


def _missing(link: Link) -> Refused:
    what = f"The messaging entity '{link.address}' could not be found."
    return Refused("amqp:not-found", tracked(what))
