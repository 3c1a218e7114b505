# SPDX-License-Identifier: Apache-2.0

"""Flow control by the application, for an application that needs more than the defaults.

oslo.messaging has no interface for flow control, so this one is the driver's own::

    from amqp1_driver import flow

    server = oslo_messaging.get_rpc_server(transport, target, endpoints)
    server.start()
    control = flow.control(server)
    control.pause()          # the bus keeps the messages, or gives them to other servers
    control.resume()
    control.set_credit(10)   # hold at most 10 unsettled messages from each address

Any thread except those of the driver.
"""

from typing import Any

from amqp1_driver import compat
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.driver.listener import Listener, ListenerAdapter

#: seconds within which the bus has to answer a request
TIMEOUT = 5.0


class FlowControl:
    """The flow control of one server or listener; several objects may control the same listener.

    :param listener: the listener to control
    :param least: smallest credit; with less, the listener's batches would never fill
    """

    def __init__(self, listener: Listener, least: int = 1) -> None:
        self._listener = listener
        self._least = least

    def pause(self, timeout: float = TIMEOUT) -> bool:
        """Stop the flow of messages until :meth:`resume`, also across reconnections.

        Messages that are on their way still arrive before this method returns. Only RabbitMQ can
        confirm that there are none; any other bus may use up its credit before it stops.

        :param timeout: seconds
        :returns: True if the bus has confirmed that no more messages will come; False if it has
            not within ``timeout`` or the driver's own limit of 2 s: the listener is paused anyway
        :raises Closed: the listener was stopped
        """
        return self._listener.control(Subscription.pause, timeout)

    def resume(self, timeout: float = TIMEOUT) -> None:
        """Let messages flow again.

        :raises Closed: the listener was stopped
        """
        self._listener.control(Subscription.resume, timeout)

    def set_credit(self, credit: int, timeout: float = TIMEOUT) -> int:
        """Set how many unsettled messages the listener may hold for each of its addresses.

        The change takes effect at once, also downwards. Listeners on the same bus compete for
        messages: a listener with more credit gets more of them.

        :param credit: messages, at least 1
        :returns: the credit that is set, at least twice the size of a batch
        :raises ValueError: ``credit`` is less than 1
        :raises Closed: the listener was stopped
        """
        if credit < 1:
            raise ValueError(f"a credit of {credit} would never let anything through; pause()?")
        credit = max(credit, self._least)
        self._listener.control(
            lambda subscription, done: subscription.resize(credit, done), timeout
        )
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
        """Return how many messages wait at the bus, as the bus last reported; None: it never did.

        RabbitMQ reports the number when it is asked for it, and when it confirms a pause.
        """
        subscription = self._listener.subscription
        return None if subscription is None else subscription.backlog

    @property
    def paused(self) -> bool:
        subscription = self._listener.subscription
        return subscription is not None and subscription.paused

    @property
    def credit(self) -> int:
        """Return the credit for each address, messages; 0 after the listener's cleanup."""
        subscription = self._listener.subscription
        return 0 if subscription is None else subscription.credit

    def counters(self) -> dict[str, int | None]:
        """Return counts by name.

        :returns: ``credit``, ``backlog``, ``stalls`` (how often the credit was used up),
            ``received`` (messages so far), ``unsettled`` (received, but not settled yet)
        """
        subscription = self._listener.subscription
        counts = {} if subscription is None else subscription.counters()
        return {"credit": self.credit, "backlog": self.backlog, **counts}


def control(listener: Any) -> FlowControl:
    """Return the flow control of a server or listener.

    :param listener: a server or notification listener of oslo.messaging that was started, or a
        listener of this driver
    :raises ValueError: the server was not started, or uses another driver
    """
    found = compat.listener_of(listener)
    least = 1
    if isinstance(found, ListenerAdapter):
        least = 2 * (found.batch_size or 1)
        found = found.listener
    if not isinstance(found, Listener):
        raise ValueError(
            f"{listener!r} has no listener of the AMQP 1.0 driver: "
            "was it started, with a transport amqp:// or amqp+…://?"
        )
    return FlowControl(found, least if least > 2 else 1)
