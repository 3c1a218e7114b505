# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Flow control in the hands of an application: for those that want more than the defaults.

oslo.messaging has no words for it, so this is the driver's own interface::

    from amqp1_driver import flow

    server = oslo_messaging.get_rpc_server(transport, target, endpoints)
    server.start()
    control = flow.control(server)
    control.pause()          # the bus keeps the messages, or gives them to other servers
    control.resume()
    control.set_credit(10)   # of messages that are not worked off yet, at most 10 are here

Any thread but those of the driver.
"""

from typing import Any

from amqp1_driver import compat
from amqp1_driver.listener import Listener, ListenerAdapter
from amqp1_driver.protocol.subscription import Subscription

#: seconds that the bus has to confirm
TIMEOUT = 5.0


class FlowControl:
    """Of one server or listener; there may be more than one of these for it.

    :param listener: what receives its messages
    :param least: credit below which its batches would never fill
    """

    def __init__(self, listener: Listener, least: int = 1) -> None:
        self._listener = listener
        self._least = least

    def pause(self, timeout: float = TIMEOUT) -> bool:
        """No more messages until :meth:`resume`, on whatever connection.

        Those that were on their way come still, before this returns.  A bus that can't be asked
        whether there are such (any but RabbitMQ) uses up the credit that it has got before it
        stops.

        :param timeout: seconds
        :returns: whether the bus has confirmed that nothing more will come; False when it has
            not within that time or the driver's own of 2 s: it is paused all the same
        :raises Closed: the listener was stopped
        """
        return self._listener.control(Subscription.pause, timeout)

    def resume(self, timeout: float = TIMEOUT) -> None:
        """Messages again.

        :raises Closed: the listener was stopped
        """
        self._listener.control(Subscription.resume, timeout)

    def set_credit(self, credit: int, timeout: float = TIMEOUT) -> int:
        """How many messages may be here that are not worked off, for each of its addresses.

        With effect at once, also downwards: the more a listener has, the more it gets of what
        the others on the same bus compete for.

        :param credit: messages, at least 1
        :returns: what is in effect: twice the size of a batch is the least
        :raises ValueError: less than 1
        :raises Closed: the listener was stopped
        """
        if credit < 1:
            raise ValueError(f"a credit of {credit} would never let anything through; pause()?")
        credit = max(credit, self._least)
        self._listener.control(lambda subscription, done: subscription.resize(credit, done),
                               timeout)
        return credit

    def ask_backlog(self, timeout: float = TIMEOUT) -> int | None:
        """Ask the bus how many messages wait there for this listener.

        :returns: see :attr:`backlog`
        :raises Closed: the listener was stopped
        """
        self._listener.control(Subscription.ask, timeout)
        return self.backlog

    @property
    def backlog(self) -> int | None:
        """Messages that wait at the bus, as it last said; None: it never did.

        RabbitMQ says so when it is asked, or confirms a pause.
        """
        subscription = self._listener.subscription
        return None if subscription is None else subscription.backlog

    @property
    def paused(self) -> bool:
        subscription = self._listener.subscription
        return subscription is not None and subscription.paused

    @property
    def credit(self) -> int:
        """Messages, for each address; 0 once the listener is gone."""
        subscription = self._listener.subscription
        return 0 if subscription is None else subscription.credit

    def counters(self) -> dict[str, int | None]:
        """What there is to count: ``credit``, ``backlog``, ``stalls`` (how often the credit was
        used up), ``received`` (messages so far), ``unsettled`` (of these, not worked off yet).
        """
        subscription = self._listener.subscription
        counts = {} if subscription is None else subscription.counters()
        return {"credit": self.credit, "backlog": self.backlog, **counts}


def control(listener: Any) -> FlowControl:
    """Flow control of what receives messages.

    :param listener: a server or notification listener of oslo.messaging that was started, or a
        listener of this driver
    :raises ValueError: not started, or of another driver
    """
    found = compat.listener_of(listener)
    least = 1
    if isinstance(found, ListenerAdapter):
        least = 2 * (found.batch_size or 1)
        found = found.listener
    if not isinstance(found, Listener):
        raise ValueError(f"{listener!r} has no listener of the AMQP 1.0 driver: "
                         "was it started, with a transport amqp:// or amqp+…://?")
    return FlowControl(found, least if least > 2 else 1)
