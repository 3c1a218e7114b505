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

"""What is listened to: the subscriptions of a connection, and what becomes of their messages.

Subscriptions outlive generations: each new one opens their links again.  Lives on
the I/O thread.
"""

import logging
from collections.abc import Callable, Sequence

from amqp1_driver.addressing.base import Node
from amqp1_driver.protocol.generation import Generation
from amqp1_driver.protocol.receiver import Delivery
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)


class Listening:
    """Subscriptions of one logical connection.

    :param host: ``hostname:port``, for logs
    :param broken: told of an error inside, which costs the physical connection
    """

    def __init__(self, host: Callable[[], str], broken: Callable[[Exception], object]) -> None:
        self._host = host
        self._broken = broken
        #: what can open links just now
        self.ready: Generation | None = None
        self.subscriptions: dict[Subscription, None] = {}

    def subscribe(self, subscription: Subscription) -> None:
        """Read, now and on each connection to come."""
        self.subscriptions[subscription] = None
        if self.ready is not None:
            self.ready.subscribe(subscription)

    def stop(self, subscription: Subscription, done: Callable[[bool], object] = bool) -> None:
        """No new messages; ``done`` is told when what was on its way has come."""
        subscription.leave()
        self._leave(subscription.nodes, 1, lambda _: subscription.stop(done))

    def unsubscribe(self, subscription: Subscription,
                    done: Callable[[bool], object] = bool) -> None:
        """Detach; ``done`` is told when nothing of it is left on the bus that should not be."""
        nodes = subscription.nodes
        if self.subscriptions.pop(subscription, subscription) is None:
            subscription.close()
        self._leave(nodes, 0, done)

    def _leave(self, nodes: tuple[Node, ...], readers: int,
               done: Callable[[bool], object]) -> None:
        if self.ready is None or not nodes:
            done(True)
        else:
            self.ready.leave(nodes, readers, done)

    def settle(self, delivery: Delivery) -> None:
        """Tell the bus what became of a message."""
        try:
            delivery.receiver.settle(delivery)
        except Exception as error:
            LOG.exception("A message from %s could not be settled", delivery.address)
            self._broken(error)

    def settle_all(self, subscription: Subscription, deliveries: Sequence[Delivery],
                   room: int) -> None:
        """See :meth:`Subscription.settle_all`."""
        try:
            subscription.settle_all(deliveries, room)
        except Exception as error:
            LOG.exception("Messages from %s could not be settled", self._host())
            self._broken(error)

    def resume(self, generation: Generation) -> None:
        """There is a generation that is ready: open what has no links."""
        for subscription in self.subscriptions:
            if not subscription.receivers and not subscription.stopping:
                generation.subscribe(subscription)

    def connection_lost(self) -> None:
        """All links have gone."""
        for subscription in self.subscriptions:
            subscription.connection_lost()

    def abort(self, error: BaseException) -> None:
        """The loop is dying: there will be no links any more."""
        for subscription in self.subscriptions:
            subscription.connection_lost()
            subscription.refused(error)
