# SPDX-License-Identifier: Apache-2.0

"""Subscriptions of listeners, and the links over which they read; on the I/O thread.

A :class:`Subscription` outlives physical connections. :class:`Subscriptions` are those of one
logical connection. A :class:`Subscriber` opens their links on one physical connection.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Entity, Node, Queue, Service
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.profiles import Provision
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.flow_replies import Answered
from amqp1_driver.connection.operation import Completion
from amqp1_driver.connection.receiver import Delivery, Receiver, Sink
from amqp1_driver.interfaces import Timer
from amqp1_driver.policy.retry import Retry
from amqp1_driver.provisioning.base import (
    missing_entities_error,
    predeclared,
)

LOG = exceptions.logger(__name__)


class Subscription:
    """A subscription of one listener, which outlives physical connections.

    :param destinations: the listener's targets
    :param pool: name of a shared pool of notification listeners
    :param unique: distinguishes this listener from all others
    :param credit: of each link, messages
    :param batched: the application collects messages before it settles them
    :param sink: takes the deliveries
    :param ready: completed whenever all links are attached that can be attached at present, with an
        error when the bus can't provide the subscription
    """

    def __init__(
        self,
        destinations: tuple[Destination, ...],
        pool: str | None,
        unique: str,
        credit: int,
        batched: bool,
        sink: Sink,
        ready: Completion,
    ) -> None:
        self.destinations = destinations
        self.pool = pool
        self.unique = unique
        self.credit = credit
        self.batched = batched
        self.sink = sink
        self.receivers: list[Receiver] = []
        self.stopping = False
        self.last_error: BaseException | None = None
        self._ready = ready
        self._stalls = self._received = 0
        #: limit that the bus sets to the credit of each link, messages; None: no limit
        self.limit: int | None = None
        self._missing: tuple[Entity, ...] = ()
        self.paused = False
        #: messages that the reader has room for, of all links together; None: it has no such limit
        self.room: int | None = None
        self._returned = 0

    @property
    def allowed(self) -> int:
        """Return the credit of each link, messages."""
        return self.credit if self.limit is None else min(self.credit, self.limit)

    @property
    def stalls(self) -> int:
        """Return the number of credit stalls of all links so far."""
        return self._stalls + sum(r.window.stalls for r in self.receivers)

    def counters(self) -> dict[str, int]:
        """Return counters by name: ``stalls`` and ``received`` so far, ``unsettled`` now."""
        return {
            "stalls": self.stalls,
            "received": self._received_total,
            "unsettled": sum(r.window.unsettled for r in self.receivers),
        }

    @property
    def backlog(self) -> int | None:
        """Return how many messages the bus holds for this listener; None: it gave no number.

        The number is as old as the last answer to :meth:`ask`.
        """
        known = [r.available for r in self.receivers if r.available is not None]
        return sum(known) if known else None

    def add(self, receiver: Receiver) -> None:
        """Add a link, which the caller attaches afterwards."""
        if self.paused:
            receiver.window.pause()
        self.receivers.append(receiver)

    def pause(self, done: Answered) -> None:
        """Stop messages, on this connection and later ones; see :meth:`Receiver.pause`."""
        self.paused = True
        self._all([receiver.pause for receiver in self.receivers], done)

    def resume(self, done: Answered = bool) -> None:
        """Let messages come again.

        :param done: called with True at once
        """
        self.paused = False
        for receiver in self.receivers:
            receiver.resume()
        done(True)

    def resize(self, credit: int, done: Answered = bool) -> None:
        """Change the credit of each link.

        :param credit: messages
        :param done: called with True at once
        """
        self.credit = credit
        for receiver in self.receivers:
            receiver.resize(self.allowed)
        done(True)

    def settle_all(self, deliveries: Sequence[Delivery], room: int) -> None:
        """Settle deliveries, and grant no more credit than the reader has room for.

        This serves a reader with one bound for all links. ``room`` bounds the sum of the credit of
        all links and of the deliveries that the reader holds. The reader has to return each
        delivery through this method, even a delivery that nothing can settle any more.

        :param room: messages that the reader could hold without these deliveries
        """
        settled: dict[Receiver, list[Delivery]] = {}
        for delivery in deliveries:
            found = settled.get(delivery.receiver)
            if found is None:
                found = settled[delivery.receiver] = []
            found.append(delivery)
        self.room = room
        self._returned += len(deliveries)
        self.share({receiver: receiver.settle_all(found) for receiver, found in settled.items()})

    def share(self, settled: Mapping[Receiver, int] = {}) -> None:
        """Divide the room among the links.

        This never takes credit back, since the messages under way would arrive all the same.

        :param settled: number of deliveries that each link has settled since the last call
        """
        if self.room is None:
            return
        levels = {r: r.window.level - settled.get(r, 0) for r in self.receivers}
        # deliveries of links that have ended: the reader still holds them, so they take room
        stale = (
            self._received_total
            - self._returned
            - sum(r.window.unsettled - settled.get(r, 0) for r in self.receivers)
        )
        spare = max(0, self.room - stale - sum(levels.values()))
        # lowest level first: a link with unused credit must not get the last of the room
        for left, receiver in zip(
            range(len(levels), 0, -1), sorted(levels, key=levels.__getitem__), strict=True
        ):
            level = levels[receiver]
            more = min(-(-spare // left), max(0, self.allowed - level))
            spare -= more
            receiver.on_settled(settled.get(receiver, 0), level + more)

    def brake(self) -> int:
        """Take back the credit of all links until :meth:`settle_all`, for a reader with one bound.

        A link on which no delivery is unsettled keeps a credit of 1.

        :returns: the credit taken back, in messages; messages that the bus has sent by then still
            arrive
        """
        before = sum(receiver.window.credit for receiver in self.receivers)
        for receiver in self.receivers:
            receiver.resize(1)
        return before - sum(receiver.window.credit for receiver in self.receivers)

    @property
    def _received_total(self) -> int:
        """Return how many messages the reader has received so far."""
        return self._received + sum(r.window.received for r in self.receivers)

    def resemble(self, other: "Subscription") -> bool:
        """Copy from ``other``, whose I/O thread has died, its credit and whether it was paused.

        :returns: always True, which the caller passes on as the answer of the I/O thread
        """
        if other.paused:
            self.pause(bool)
        self.resize(other.credit)
        return True

    def ask(self, done: Answered) -> None:
        """Ask the bus to update :attr:`backlog`; see :meth:`Receiver.ask`."""
        self._all([receiver.ask for receiver in self.receivers], done)

    @staticmethod
    def _all(actions: list[Callable[[Answered], None]], done: Answered) -> None:
        """Run all actions, then call ``done`` once with whether all of them have succeeded."""
        results: list[bool] = []

        def one(confirmed: bool) -> None:
            results.append(confirmed)
            if len(results) == len(actions):
                done(all(results))

        for action in actions:
            action(one)
        if not actions:
            done(True)

    def changed(self, receiver: Receiver, error: exceptions.AmqpError | None) -> None:
        """Note that a link is attached now (no error), or that the peer refused or detached it."""
        if error is not None:
            self.last_error = error
            self.share()
        elif all(r.attached for r in self.receivers):
            self.last_error = None
            self._missing = ()
        self.look_if_ready()
        self._look_for_missing()

    def look_if_ready(self) -> None:
        """Complete ``ready`` if all links are attached that can be attached at present."""
        if all(r.attached or r.postponed for r in self.receivers):
            self._ready.set_result(None)

    def _look_for_missing(self) -> None:
        """Report all missing entities in one error, once the peer has answered for each link."""
        if not all(r.attached or r.problem is not None for r in self.receivers):
            return
        refused = [
            (r.node, r.problem)
            for r in self.receivers
            if r.problem is not None
            and missing_entities_error(r.problem, predeclared(r.node.declare)) is not None
        ]
        gone = tuple(entity for node, _ in refused for entity in predeclared(node.declare))
        if set(gone) <= set(self._missing):
            return
        self._missing = gone
        error = missing_entities_error(refused[0][1], gone)
        if error is not None:
            self.refused(error)

    def refused(self, error: BaseException) -> None:
        """Log and report that the present bus can't provide this subscription."""
        self.last_error = error
        LOG.error("Can't listen on %s: %s", [d.routing_key for d in self.destinations], error)
        self._ready.set_exception(error)
        self.sink.interrupt()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that the links read."""
        return tuple(receiver.node for receiver in self.receivers)

    def leave(self) -> None:
        """Prepare for the end of all links; see :meth:`Receiver.leave`."""
        for receiver in self.receivers:
            receiver.leave()

    def stop(self, done: Answered) -> None:
        """Take the messages under way, but no new ones; see :meth:`Receiver.stop`."""
        self.stopping = True
        self._all([receiver.stop for receiver in self.receivers], done)

    def close(self) -> None:
        """Detach all links for good."""
        self.stopping = True
        for receiver in self.receivers:
            receiver.detach()
        self._drop()

    def connection_lost(self) -> None:
        """Forget all links, because the physical connection is lost; keep the counters."""
        for receiver in self.receivers:
            receiver.connection_lost()
        self._drop()

    def _drop(self) -> None:
        self._stalls = self.stalls
        self._received += sum(r.window.received for r in self.receivers)
        self.receivers = []


def _is_own(node: Node) -> bool:
    """Return whether only this connection can declare the node."""
    return any(isinstance(d, Queue) and d.exclusive for d in node.declare)


class Subscriber:
    """The opener of the links of subscriptions on one physical connection.

    It has the nodes provisioned first where the bus needs that, and tries again after a failure.

    :param context: how messages are addressed now
    """

    def __init__(self, links: LinkContext, context: BusContext) -> None:
        self._links = links
        self._scheduler = links.shared.network
        self._provisioner = links.provisioner
        #: how messages are addressed now; replaced when the reply address changes
        self.context = context
        self._names = count(1)
        #: subscriptions that are being provisioned (None), or will be after a pause (timer)
        self._pending: dict[Subscription, Timer | None] = {}
        #: nodes that are being provisioned and have no links yet, by subscription
        self._declaring: dict[Subscription, list[Node]] = {}
        self._retries: dict[Subscription, Retry] = {}
        self._alive = True

    def subscribe(self, subscription: Subscription) -> None:
        """Attach the links of a subscription, and provision the nodes first where needed."""
        if subscription in self._pending:
            return
        try:
            nodes = list(subscription.nodes) or [
                node
                for destination in subscription.destinations
                for node in self.context.sources(
                    # ``unique`` is new: the bus may still hold an earlier connection's queues
                    destination,
                    pool=subscription.pool,
                    unique=f"{subscription.unique}-{self.context.generation}",
                )
            ]
        except exceptions.UnsupportedFeature as error:
            subscription.refused(error)
            return
        if self._provisioner is None:
            self._attach_receivers(subscription, nodes)
            return
        self._pending[subscription] = None
        self._declaring[subscription] = nodes
        declare = tuple(d for node in nodes for d in node.declare)
        self._provisioner.ensure(declare, partial(self._provisioned, subscription))

    def blocked(self) -> None:
        """Attach to the nodes as they are: the bus accepts no requests, as RabbitMQ in an alarm.

        A queue that only this connection can declare does not exist yet, so its link waits.
        """
        declaring, self._declaring = self._declaring, {}
        for subscription, nodes in declaring.items():
            if subscription.stopping:
                continue
            self._add_receivers(subscription, nodes)
            for receiver in subscription.receivers:
                receiver.undeclared = True
            for receiver in subscription.receivers:
                if not _is_own(receiver.node) and not self._links.sessions.must_share:
                    receiver.attach()
            subscription.look_if_ready()

    def _provisioned(self, subscription: Subscription, error: BaseException | None) -> None:
        self._pending.pop(subscription, None)
        nodes = self._declaring.pop(subscription, [])
        if subscription.stopping:
            return
        if error is None:
            self._retries.pop(subscription, None)
            self._attach_receivers(subscription, nodes)
            return
        subscription.last_error = error
        if not isinstance(error, (exceptions.AuthenticationFailed, exceptions.LinkFailed)):
            return
        if self.context.profile.provision is Provision.TOKENS:  # AMQP can't create entities
            subscription.refused(error)
        if self._alive:
            retry = self._retries.get(subscription, self._links.shared.retry)
            delay = retry.delay(self._scheduler.rng)
            self._retries[subscription] = retry.spent()
            LOG.error("Can't subscribe: %s; again in %.1f s", error, delay)
            self._pending[subscription] = self._scheduler.call_later(
                delay, lambda: self._again(subscription)
            )

    def _again(self, subscription: Subscription) -> None:
        del self._pending[subscription]
        if subscription.stopping:
            self._retries.pop(subscription, None)
        else:
            self.subscribe(subscription)

    def _attach_receivers(self, subscription: Subscription, nodes: list[Node]) -> None:
        self._add_receivers(subscription, nodes)
        for receiver in subscription.receivers:
            receiver.declared()
        if not subscription.receivers:
            subscription.look_if_ready()  # there are no links to wait for

    def _add_receivers(self, subscription: Subscription, nodes: list[Node]) -> None:
        if subscription.receivers:
            return
        subscription.limit = self._lock_limit(subscription)
        # on a router a fanout has its outcome once the last receiver has settled: a server with
        # all its threads at work would keep the sender waiting
        by_receiver = self.context.profile.settlement.by_receiver
        early = {
            self.context.addresser.target(dataclasses.replace(d, fanout=True)).address
            for d in subscription.destinations
            if by_receiver and d.service is Service.RPC
        }
        for node in nodes:
            subscription.add(
                Receiver(
                    self._links,
                    subscription,
                    subscription.sink,
                    node,
                    f"receive.{next(self._names)}.{node.address}",
                    subscription.allowed,
                    accept_early=node.address in early or (by_receiver and subscription.batched),
                )
            )
        subscription.share()

    def _lock_limit(self, subscription: Subscription) -> int | None:
        """Return how many messages the bus may lock for one link; None: no limit.

        A batched subscription has no limit, because it needs a whole batch at once.
        """
        if not self.context.profile.receiving.locks or subscription.batched:
            return None
        return self._links.shared.settings.servicebus.servicebus_credit

    def lost(self) -> None:
        """Stop all attempts to subscribe: the connection is lost.

        The subscriptions themselves forget their links.
        """
        self._alive = False
        for timer in self._pending.values():
            if timer is not None:
                timer.cancel()
        self._pending.clear()
        self._declaring.clear()


class LinkOwner(Protocol):
    """The live connection, as far as subscriptions need it."""

    def subscribe(self, subscription: Subscription) -> None:
        """Open the links of a subscription."""
        ...

    def delete_unused(self, nodes: tuple[Node, ...], readers: int, done: Answered) -> None:
        """Delete the unused queues of nodes; see :meth:`Provisioner.delete_unused`."""
        ...


class Subscriptions:
    """The subscriptions of one logical connection.

    :param host: returns ``hostname:port``, for logs
    """

    def __init__(self, host: Callable[[], str]) -> None:
        self._host = host
        #: the live connection while it can open links, None otherwise
        self.ready: LinkOwner | None = None
        self.subscriptions: dict[Subscription, None] = {}

    def subscribe(self, subscription: Subscription) -> None:
        """Open the links of a subscription, now and on each later physical connection."""
        self.subscriptions[subscription] = None
        if self.ready is not None:
            self.ready.subscribe(subscription)

    def stop(self, subscription: Subscription, done: Callable[[bool], object] = bool) -> None:
        """Stop the flow of messages.

        :param done: called once the messages under way have arrived; see :meth:`Receiver.stop`
        """
        subscription.leave()
        self._delete_unused(subscription.nodes, 1, lambda _: subscription.stop(done))

    def unsubscribe(
        self, subscription: Subscription, done: Callable[[bool], object] = bool
    ) -> None:
        """Detach the links of a subscription.

        :param done: called once the bus has looked after the queues that it should not keep; with
            False if the bus was too slow, otherwise with True
        """
        nodes = subscription.nodes
        if self.subscriptions.pop(subscription, subscription) is None:
            subscription.close()
        self._delete_unused(nodes, 0, done)

    def _delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        if self.ready is None or not nodes:
            done(True)
        else:
            self.ready.delete_unused(nodes, readers, done)

    def resume(self, links: LinkOwner) -> None:
        """Open the links of all subscriptions that have none."""
        for subscription in self.subscriptions:
            if not subscription.receivers and not subscription.stopping:
                links.subscribe(subscription)

    def connection_lost(self) -> None:
        """Forget the links of all subscriptions."""
        for subscription in self.subscriptions:
            try:
                subscription.connection_lost()
            except Exception:
                LOG.exception("A subscription on %s was not given up in order", self._host())

    def abort(self, error: BaseException) -> None:
        """Fail all subscriptions, because an exception ends the loop."""
        self.connection_lost()
        for subscription in self.subscriptions:
            try:
                subscription.refused(error)
            except Exception:
                LOG.exception("A subscription on %s was not given up in order", self._host())
