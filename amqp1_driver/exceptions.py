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

"""What can go wrong on the bus, and what oslo.messaging is told about it.

Pure: no I/O, and proton is not needed. Instances are created on the I/O thread and
raised on application threads, so they are never changed after they were created.

Condition symbols are those of AMQP 1.0 part 2, sections 2.8.14 to 2.8.18.
"""

import copy
from typing import Any


class AmqpError(Exception):
    """Base of every error of this driver. Lives on any thread.

    :param message: what happened, in words; empty for the default of the class.
    :param host: ``hostname:port`` of the peer. Never carries credentials.
    :param address: AMQP address concerned.
    :param message_id: id of the message concerned.
    :param condition: AMQP error condition symbol given by the peer.
    :param description: text the peer gave with the condition.
    """

    summary = "AMQP error"
    #: True when the peer may already have the message: sending again could duplicate it.
    in_doubt = False

    def __init__(
        self,
        message: str = "",
        *,
        host: str | None = None,
        address: str | None = None,
        message_id: object = None,
        condition: str | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message or self.summary
        self.host = host
        self.address = address
        self.message_id = message_id
        self.condition = condition
        self.description = description

    def about(self, address: str | None, message_id: object) -> "AmqpError":
        """This error as that of one message: a copy, since it may have failed many.

        An error that names a message stays as it is.
        """
        if self.message_id is not None:
            return self
        error = copy.copy(self)
        error.__cause__ = self.__cause__
        error.address = self.address or address
        error.message_id = message_id
        return error

    def details(self) -> dict[str, object]:
        """Fields that are set, by name, in the order in which they are shown."""
        fields = {
            "host": self.host,
            "address": self.address,
            "message-id": self.message_id,
            "condition": self.condition,
            "description": self.description,
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value}" for name, value in self.details().items())
        return f"{self.message} ({details})" if details else self.message


class ConnectionFailed(AmqpError):
    """No connection could be made: nothing was sent."""

    summary = "could not connect"


class _Interrupted(AmqpError):
    """Something under way was cut off; ``in_doubt`` tells whether it was on the wire."""

    def __init__(self, message: str = "", *, in_doubt: bool = False, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.in_doubt = in_doubt


class ConnectionLost(_Interrupted):
    """An open connection went away."""

    summary = "connection lost"


class AuthenticationFailed(AmqpError):
    """The peer does not accept who we are, or what we may do (SASL, unauthorized-access)."""

    summary = "authentication failed"


class TlsFailed(AmqpError):
    """No trusted TLS session could be made with the peer."""

    summary = "TLS failed"


class SessionEnded(_Interrupted):
    """The peer ended the session and with it all its links."""

    summary = "session ended by the peer"


class LinkFailed(_Interrupted):
    """The link was refused, or detached by the peer."""

    summary = "link failed"


class DeliveryRejected(AmqpError):
    """Outcome REJECTED (3.4.3): the message is invalid or unwanted there."""

    summary = "message rejected"


class DeliveryReleased(AmqpError):
    """Outcome RELEASED (3.4.4): nobody took the message, it was not processed."""

    summary = "message released: nobody took it"


class DeliveryModified(AmqpError):
    """Outcome MODIFIED (3.4.5).

    :param failed: delivery-failed: a receiver may have seen the message.
    :param undeliverable: undeliverable-here: do not send it to this address again.
    """

    summary = "message not accepted (modified)"

    def __init__(
        self, message: str = "", *, failed: bool = False, undeliverable: bool = False, **fields: Any
    ) -> None:
        super().__init__(message, **fields)
        self.failed = failed
        self.undeliverable = undeliverable


class InDoubt(AmqpError):
    """Connection or link went while the message was unsettled: its fate is unknown."""

    summary = "delivery in doubt: connection or link lost before the outcome"
    in_doubt = True


class DeadlineExpired(AmqpError):
    """The operation's time was up.

    :param stage: what it was waiting for, for example ``connection``, ``credit``,
        ``acknowledgement`` or ``reply``.
    """

    summary = "timed out"

    def __init__(self, message: str = "", *, stage: str = "", **fields: Any) -> None:
        super().__init__(message or (f"timed out waiting for {stage}" if stage else ""), **fields)
        self.stage = stage


class LoopDied(AmqpError):
    """The I/O thread has ended on an unexpected error; the transport is unusable."""

    summary = "the I/O thread has died"


class MailboxFull(AmqpError):
    """Too many operations wait for the I/O thread."""

    summary = "too many operations are waiting"


class Closed(AmqpError):
    """The transport or listener was closed by the application."""

    summary = "closed"


class DecodeError(AmqpError):
    """A received message cannot be understood.

    :param offset: byte at which decoding failed, None when it is not about bytes.
    """

    summary = "message cannot be decoded"

    def __init__(self, message: str = "", *, offset: int | None = None, **fields: Any) -> None:
        if offset is not None:
            message = f"{message or self.summary} at byte {offset}"
        super().__init__(message, **fields)
        self.offset = offset


class UnsupportedFeature(AmqpError):
    """The message bus cannot do what was asked for; the message names the bus."""

    summary = "not supported by this message bus"


# The one map from condition symbol to exception. Conditions that are not listed
# (the general ones of 2.8.15) take the class of the place they were reported in.
_CONDITIONS: dict[str, type[AmqpError]] = {
    "amqp:unauthorized-access": AuthenticationFailed,
    "amqp:not-implemented": UnsupportedFeature,
    "amqp:connection:forced": ConnectionLost,
    "amqp:connection:framing-error": ConnectionLost,
    "amqp:connection:redirect": ConnectionLost,
    "amqp:session:window-violation": SessionEnded,
    "amqp:session:errant-link": SessionEnded,
    "amqp:session:handle-in-use": SessionEnded,
    "amqp:session:unattached-handle": SessionEnded,
    "amqp:link:detach-forced": LinkFailed,
    "amqp:link:transfer-limit-exceeded": LinkFailed,
    "amqp:link:message-size-exceeded": LinkFailed,
    "amqp:link:redirect": LinkFailed,
    "amqp:link:stolen": LinkFailed,
}

# Trying again cannot help: the request itself is at fault.
_PERMANENT = frozenset(
    {
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:link:message-size-exceeded",
    }
)

# A rejection is final, except where only the address or room is missing as yet
# (routers answer not-found until a new address has spread through the mesh).
_TRANSIENT_REJECTIONS = frozenset({"amqp:not-found", "amqp:resource-limit-exceeded"})

_DELIVERY_OUTCOMES = (DeliveryRejected, DeliveryReleased, DeliveryModified)


def from_condition(
    name: str | None,
    description: str | None = None,
    *,
    default: type[AmqpError] = LinkFailed,
    **fields: Any,
) -> AmqpError:
    """Make the exception for an AMQP error condition (2.8.14).

    :param name: condition symbol; None when the peer closed without an error.
    :param description: the peer's text.
    :param default: class of the place where it was reported (ConnectionLost, SessionEnded,
        LinkFailed, DeliveryRejected ...), taken for conditions that belong to no place. An
        outcome of a delivery stays one whatever its condition.
    :param fields: further keyword arguments of the exception (host, address, ...).
    """
    kind = default
    if name is not None and not issubclass(default, _DELIVERY_OUTCOMES):
        kind = _CONDITIONS.get(name, default)
    if not issubclass(kind, _Interrupted):
        fields.pop("in_doubt", None)
    return kind(condition=name, description=description, **fields)


def not_followed(error: AmqpError, reason: str) -> AmqpError:
    """The error of a redirect, saying why we do not go where it leads."""
    copied = copy.copy(error)
    copied.message = f"{error.message}; the redirect is not followed: {reason}"
    return copied


def recoverable(exc: BaseException) -> bool:
    """Whether the same operation may be tried again: it can succeed and cannot duplicate.

    Says nothing about connections: after *any* failure the next host is tried.
    """
    if not isinstance(exc, AmqpError) or exc.in_doubt:
        return False
    if isinstance(exc, DeliveryModified):
        return not exc.failed and not exc.undeliverable
    if isinstance(exc, DeliveryRejected):
        return exc.condition in _TRANSIENT_REJECTIONS
    if isinstance(exc, (SessionEnded, LinkFailed)):
        return exc.condition not in _PERMANENT
    return isinstance(exc, (ConnectionFailed, ConnectionLost, DeliveryReleased, MailboxFull))


def nobody_there(exc: BaseException) -> bool:
    """Whether the message failed because no queue or receiver was there to take it."""
    if isinstance(exc, DeliveryReleased):
        return True
    return isinstance(exc, (DeliveryRejected, LinkFailed)) and exc.condition == "amqp:not-found"


def to_oslo(
    exc: BaseException,
    *,
    with_timeout: bool,
    at_least_once: bool = False,
    exchange: str = "",
    routing_key: str = "",
    message: object = None,
) -> Exception:
    """Translate into what oslo.messaging documents for ``send``.

    The caller raises it ``from exc``. Runs on application threads.

    :param with_timeout: the application gave a timeout of its own.
    :param at_least_once: the application asked for it in its transport options.
    :param exchange, routing_key, message: carried by MessageUndeliverable.
    :returns: MessagingTimeout, MessageUndeliverable or MessageDeliveryFailure.
    """
    # Late, so that this module stays importable at no cost; whoever sends has it loaded.
    from oslo_messaging import exceptions as oslo

    if with_timeout and isinstance(exc, DeadlineExpired):
        return oslo.MessagingTimeout(str(exc))  # type: ignore[no-any-return]
    if at_least_once and nobody_there(exc):
        return oslo.MessageUndeliverable(exc, exchange, routing_key, message)  # type: ignore[no-any-return]
    return oslo.MessageDeliveryFailure(str(exc) or repr(exc))  # type: ignore[no-any-return]
