# SPDX-License-Identifier: Apache-2.0

"""A received message as oslo.messaging's servers use it.  Lives on application threads."""

from typing import TYPE_CHECKING, Any

from amqp1_driver import codec, compat, exceptions
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.policy.outcome import Outcome

if TYPE_CHECKING:
    from amqp1_driver.driver.listener import Listener

LOG = exceptions.logger(__name__)

_DECODED = frozenset(("ctxt", "message", "client_timeout"))


class Incoming(compat.RpcIncomingMessage):  # type: ignore[misc]
    """One request or notification.  Application threads; no method raises, except
    :meth:`heartbeat` after :meth:`reply`.

    :param listener: the listener that received the message
    :param delivery: the message's delivery, which ``acknowledge`` or ``requeue`` settles once
    """

    #: context and message of the sender; :meth:`__getattr__` decodes them at the first access
    ctxt: dict[str, Any]
    message: Any
    #: longest time between heartbeats that the caller accepts, seconds; None: the caller wants no
    #: heartbeats
    client_timeout: float | None
    _replied = False
    _malformed: exceptions.DecodeError | None = None

    def __init__(self, listener: "Listener", delivery: Delivery, message: codec.Message) -> None:
        # not super().__init__(), which wants the decoded body
        message_id = message.message_id
        self.msg_id: Any = message_id if type(message_id) is str else _text(message_id)
        self._listener = listener
        #: the delivery to settle, once; change it under the listener's lock only
        self.delivery: Delivery | None = delivery
        self._message_id = message.message_id
        self._correlation_id = message.message_id_raw
        self._reply_to = message.reply_to
        self._body: tuple[Any, str | None] | None = message.body, message.content_encoding
        #: address and host from which the message came
        self.where = delivery.address, delivery.host

    def __getattr__(self, name: str) -> Any:
        """Decode the body at the first access to one of its parts, which then become attributes.

        :raises DecodeError: the body is malformed; the message is rejected
        """
        if name in _DECODED:
            if self._body is not None:
                self._load()
                return self.__dict__[name]
            if self._malformed is not None:
                raise self._malformed
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _load(self) -> None:
        assert self._body is not None
        (body, encoding), self._body = self._body, None
        try:
            if encoding:
                body = codec.decompress(body, encoding, self._listener.largest)
            request = self._listener.load(body)
        except Exception as error:  # of any kind: an unsettled message would keep a credit
            self._malformed = (
                error
                if isinstance(error, exceptions.DecodeError)
                else exceptions.DecodeError(f"body can't be read: {error!r}")
            )
            self._listener.log_rejected(self.msg_id, *self.where, self._malformed)
            self._settle(Outcome.REJECTED)
            raise self._malformed from error
        self.message, self.ctxt, self.client_timeout = request

    def loadable(self) -> bool:
        """Return whether the body can be decoded; if not, the message has been rejected."""
        try:
            return self.message is not self
        except exceptions.DecodeError:
            return False

    def acknowledge(self) -> None:
        """Settle the message as accepted (AMQP 1.0, 3.4.2), which makes room for the next one.

        The disposition of a call goes out within a few milliseconds or with the reply, since the
        sender waits for the reply.
        """
        self._settle(Outcome.ACCEPTED, idly=self._reply_to is not None)

    def requeue(self) -> None:
        """Settle the message as released (3.4.4): the bus gives it to another server or the sender.

        If the bus counts only modified deliveries as failed, the outcome is modified (3.4.5):
        otherwise the message would come back without end. If the delivery is settled already,
        this listener gets the message once more.
        """
        self._listener.forget(self._message_id)
        delivery = self.delivery
        if delivery is not None and delivery.settled:
            self.delivery = None
            if self._listener.again(delivery):
                return
            LOG.error(
                "Message %s from %s on %s is lost: it can't be requeued, for it had to be "
                "accepted early and the listener has stopped",
                self.msg_id,
                delivery.address,
                delivery.host,
            )
            self.delivery = delivery
        self._settle(Outcome.RELEASED if delivery is None else delivery.receiver.return_outcome)

    def return_unprocessed(self) -> None:
        """Settle an unprocessed message as released: the bus gives it to another server."""
        self._listener.forget(self._message_id)
        self._settle(Outcome.RELEASED)

    def adopt(self, delivery: Delivery) -> bool:
        """Take a redelivery of the message if the link of its first delivery has gone.

        The caller holds the listener's lock.

        :returns: False if the first delivery is settled, or its link is still there
        """
        first = self.delivery
        if first is None or first.link is first.receiver.link:
            return False
        self.delivery = delivery
        return True

    def _settle(self, outcome: Outcome, idly: bool = False) -> None:
        delivery, alone = self._listener.finish(self, self._message_id)
        if delivery is None:
            LOG.debug("Message %s is settled already", self.msg_id)
            return
        delivery.outcome = outcome
        try:
            self._listener.client.settle(delivery, idly, alone)
        except Exception:
            LOG.exception(
                "Message %s from %s could not be settled %s",
                self.msg_id,
                delivery.address,
                outcome.value,
            )

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result or the exception to the caller, if the caller waits for a reply."""
        self._replied = True
        if self._reply_to is None or self._correlation_id is None:
            LOG.debug("Message %s wants no reply", self.msg_id)
            return
        try:
            try:
                body = codec.dump_reply(reply, failure)
            except Exception as error:
                # send the caller an error, so that it does not wait until its timeout
                LOG.exception("The result of message %s can't be encoded", self.msg_id)
                # not the error itself: its arguments may hold the object that can't be encoded
                substitute = ValueError(f"the result can't be encoded: {error!r}")
                body = codec.dump_reply(None, (ValueError, substitute, error.__traceback__))
            self._listener.client.replier.reply(
                self._reply_to, self._correlation_id, self.msg_id, body
            )
        except Exception:
            LOG.exception(
                "Reply to message %s could not be sent to %s", self.msg_id, self._reply_to
            )

    def heartbeat(self) -> None:
        """Tell the caller that its call is still in progress.

        :raises Closed: the call has its reply already. oslo.messaging has a thread per monitored
            call; if no endpoint has the called method, only this error ends that thread.
        """
        if self._replied:
            raise exceptions.Closed(
                "the call was answered already", address=self._reply_to, message_id=self.msg_id
            )
        if self._reply_to is None or self._correlation_id is None:
            return
        try:
            self._listener.client.replier.heartbeat(
                self._reply_to, self._correlation_id, self.msg_id, self.client_timeout or 60.0
            )
        except Exception:
            LOG.exception("Heartbeat for message %s could not be sent", self.msg_id)


def _text(message_id: Any) -> str | None:
    return None if message_id is None else str(message_id)
