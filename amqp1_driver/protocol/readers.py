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

"""The links that subscriptions read, on one generation of the connection.

Has nodes declared first where the bus wants that, and tries again where that has
failed.  Lives on the I/O thread.
"""

import dataclasses
import logging
from collections.abc import Iterator
from functools import partial

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Node, Service
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.prepare import Preparer, make_sure
from amqp1_driver.protocol.receiver import Receiver
from amqp1_driver.protocol.sessions import Sessions
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)


class Readers:
    """Receiving links on one physical connection.

    :param names: numbers that make the names of links unique
    """

    def __init__(self, scheduler: Scheduler, settings: Settings, retry: Retry, engine: Engine,
                 context: BusContext, sessions: Sessions, provisioner: Preparer | None,
                 names: Iterator[int]) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._retry = retry
        self._engine = engine
        self.context = context
        self._sessions = sessions
        self._provisioner = provisioner
        self._prepare = partial(make_sure, provisioner)
        self._names = names
        #: subscriptions whose nodes are being declared, or will be at a time
        self._coming: dict[Subscription, Cancellable | None] = {}
        self._retries: dict[Subscription, Retry] = {}
        self._alive = True

    def subscribe(self, subscription: Subscription) -> None:
        """Attach the links of a subscription, declaring what they read first."""
        if subscription in self._coming:
            return
        try:
            nodes = [node for destination in subscription.destinations
                     for node in self.context.sources(
                         # the bus may still hold what an earlier connection left
                         destination, pool=subscription.pool,
                         unique=f"{subscription.unique}-{self.context.generation}")]
        except exceptions.UnsupportedFeature as error:
            subscription.refused(error)
            return
        if self._provisioner is None:
            self._attach_receivers(subscription, nodes)
            return
        self._coming[subscription] = None
        declare = tuple(d for node in nodes for d in node.declare)
        self._provisioner.ensure(
            declare, lambda error: self._provisioned(subscription, nodes, error))

    def _provisioned(self, subscription: Subscription, nodes: list[Node],
                     error: BaseException | None) -> None:
        self._coming.pop(subscription, None)
        if subscription.stopping:
            return
        if error is None:
            self._retries.pop(subscription, None)
            self._attach_receivers(subscription, nodes)
            return
        subscription.last_error = error
        if not isinstance(error, (exceptions.AuthenticationFailed, exceptions.LinkFailed)):
            return
        if self.context.profile.premade:
            subscription.refused(error)
        if self._alive:
            retry = self._retries.get(subscription, self._retry)
            delay = retry.delay(self._scheduler.rng)
            self._retries[subscription] = retry.spent()
            LOG.error("Can't subscribe: %s; again in %.1f s", error, delay)
            self._coming[subscription] = self._scheduler.call_later(
                delay, lambda: self._again(subscription))

    def _again(self, subscription: Subscription) -> None:
        del self._coming[subscription]
        if subscription.stopping:
            self._retries.pop(subscription, None)
        else:
            self.subscribe(subscription)

    def _attach_receivers(self, subscription: Subscription, nodes: list[Node]) -> None:
        subscription.limit = self._most(subscription)
        # where the outcome is the receiver's, it comes when the last of all has settled: one
        # with all its threads at work would keep the sender of a fanout waiting
        early = set() if self.context.profile.stores else {
            self.context.addresser.target(dataclasses.replace(d, fanout=True)).address
            for d in subscription.destinations if d.service is Service.RPC}
        for node in nodes:
            subscription.add(Receiver(
                self._scheduler, self.context.host, self._retry, node,
                f"receive.{next(self._names)}.{node.address}", self._sessions.for_receiver,
                subscription.allowed, subscription.sink, subscription.changed,
                self._prepare,
                accept_early=node.address in early
                or (subscription.batched and not self.context.profile.stores),
                abandons=self.context.profile.abandons,
                echoes=self.context.profile.echoes))
        subscription.share()
        for receiver in subscription.receivers:
            receiver.attach(self._engine)

    def _most(self, subscription: Subscription) -> int | None:
        """Messages that may be locked for one link; a batch has to be had as a whole."""
        if not self.context.profile.locks or subscription.batched:
            return None
        return self._settings.servicebus_credit

    def lost(self) -> None:
        """The connection is gone; the links are told by their subscriptions."""
        self._alive = False
        for timer in self._coming.values():
            if timer is not None:
                timer.cancel()
        self._coming.clear()
