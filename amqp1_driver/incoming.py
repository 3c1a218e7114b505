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

"""A received message as oslo.messaging's servers use it."""

import logging
from typing import TYPE_CHECKING, Any

from amqp1_driver import codec, compat, exceptions
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.protocol.receiver import Delivery

if TYPE_CHECKING:
    from amqp1_driver.listener import Listener

LOG = logging.getLogger(__name__)

_DECODED = frozenset(("ctxt", "message", "client_timeout"))


class Incoming(compat.RpcIncomingMessage):  # type: ignore[misc]
    """One request or notification.  Application threads; no method raises.

    :param listener: where it came in
    :param delivery: settled by ``acknowledge`` or ``requeue``, once
    """

    #: what the application sent, decoded when it is asked for
    ctxt: dict[str, Any]
    message: Any
    #: seconds between signs of life that the caller bears, None: it wants none
    client_timeout: float | None

    def __init__(self, listener: "Listener", delivery: Delivery, message: codec.Message) -> None:
        # not super().__init__(), which wants the decoded body
        message_id = message.message_id
        self.msg_id: Any = message_id if type(message_id) is str else _text(message_id)
        self._listener = listener
        #: to be settled, once; changed under the listener's lock
        self.delivery: Delivery | None = delivery
        self._message_id = message.message_id
        self._correlation_id = message.message_id_raw
        self._reply_to = message.reply_to
        self._body: tuple[Any, str | None] | None = message.body, message.content_encoding
        #: address and host it came from
        self.where = delivery.address, delivery.host

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there (yet): decodes the body.

        :raises DecodeError: it is malformed; the message is then rejected
        """
        if name in _DECODED and self._body is not None:
            self._load()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _load(self) -> None:
        assert self._body is not None
        try:
            request = codec.load_request(codec.decompress(*self._body))
        except exceptions.DecodeError as error:
            LOG.error("Undecodable message %s on %s at %s rejected: %s", self.msg_id,
                      *self.where, error)
            self._settle(Outcome.REJECTED)
            raise
        self._body = None
        self.message, self.ctxt, self.client_timeout = request

    def loadable(self) -> bool:
        """Whether the body can be decoded; otherwise the message has been rejected."""
        try:
            return self.message is not self
        except exceptions.DecodeError:
            return False

    def acknowledge(self) -> None:
        """Settle as accepted (AMQP 1.0, 3.4.2), which makes room for the next.

        Of a call, whose sender waits for the reply, within a few milliseconds or with the reply.
        """
        self._settle(Outcome.ACCEPTED, idly=self._reply_to is not None)

    def requeue(self) -> None:
        """Settle as released (3.4.4): the bus gives it to another, or back to its sender.

        As modified where the bus counts only that, so that it does not come without end.
        A message whose outcome is final already comes to this listener again.
        """
        self._listener.forget(self._message_id)
        delivery = self.delivery
        if delivery is not None and delivery.settled:
            self.delivery = None
            if self._listener.again(delivery):
                return
            LOG.error("Message %s from %s on %s is lost: it can't be requeued, for it had to be "
                      "accepted early and the listener has stopped", self.msg_id,
                      delivery.address, delivery.host)
            self.delivery = delivery
        self._settle(Outcome.RELEASED if delivery is None else delivery.receiver.again)

    def give_back(self) -> None:
        """Nobody works on it here: the bus gives it to another."""
        self._listener.forget(self._message_id)
        self._settle(Outcome.RELEASED)

    def take_over(self, delivery: Delivery) -> bool:
        """The bus delivers the message again, for the link of the first time has gone.

        Called under the listener's lock.
        """
        first = self.delivery
        if first is None or first.link is first.receiver.link:
            return False
        self.delivery = delivery
        return True

    def _settle(self, outcome: Outcome, idly: bool = False) -> None:
        delivery = self._listener.finish(self, self._message_id)
        if delivery is None:
            LOG.debug("Message %s is settled already", self.msg_id)
            return
        delivery.outcome = outcome
        try:
            self._listener.client.settle(delivery, idly)
        except Exception:
            LOG.exception("Message %s from %s could not be settled %s", self.msg_id,
                          delivery.address, outcome.value)

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result or the exception to the caller, if it waits for one."""
        if self._reply_to is None or self._correlation_id is None:
            LOG.debug("Message %s wants no reply", self.msg_id)
            return
        try:
            body = self._encode(reply, failure)
            self._listener.client.reply(self._reply_to, self._correlation_id, self.msg_id, body)
        except Exception:
            LOG.exception("Reply to message %s could not be sent to %s", self.msg_id,
                          self._reply_to)

    def _encode(self, reply: Any, failure: Any) -> bytes:
        try:
            return codec.dump_reply(reply, failure)
        except Exception as error:
            # the caller shall learn of it, not wait until its timeout
            LOG.exception("The result of message %s can't be encoded", self.msg_id)
            # not the error itself: what broke the encoding may be among its arguments
            substitute = ValueError(f"the result can't be encoded: {error!r}")
            return codec.dump_reply(None, (ValueError, substitute, error.__traceback__))

    def heartbeat(self) -> None:
        """Tell the caller that its call is still being worked on."""
        if self._reply_to is None or self._correlation_id is None:
            return
        try:
            self._listener.client.heartbeat(self._reply_to, self._correlation_id, self.msg_id,
                                            self.client_timeout or 60.0)
        except Exception:
            LOG.exception("Heartbeat for message %s could not be sent", self.msg_id)


def _text(message_id: Any) -> str | None:
    return None if message_id is None else str(message_id)
