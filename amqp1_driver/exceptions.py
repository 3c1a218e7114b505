# SPDX-License-Identifier: Apache-2.0

"""The exceptions of the driver, and their translation into those of oslo.messaging.

Pure: no I/O, and no need for proton. The I/O thread creates instances and application threads
raise them, so no code changes an instance after its creation.

Condition symbols are those of AMQP 1.0 part 2, sections 2.8.14 to 2.8.18.
"""

import copy
import logging
from typing import Any

#: most characters of a peer's text in a log line or error
MAX_SHOWN_CHARS = 1000


def printable(text: object, limit: int = MAX_SHOWN_CHARS) -> str:
    """Make one printable line of a text that came from outside, for log lines and errors.

    Unprintable characters (new lines, escape sequences of terminals, marks that turn the
    direction of writing) become escapes as in Python's string literals. The result shows only
    the beginning of a text that is too long. Never raises.

    :param text: a string, bytes (read as UTF-8), an exception (shown with its class), or any
        other object (shown by its ``str()``)
    :param limit: most characters of ``text`` in the result
    """
    if isinstance(text, (bytes, bytearray, memoryview)):
        text = bytes(text[: 4 * limit]).decode("utf-8", "backslashreplace")
    elif not isinstance(text, str):
        try:
            text = repr(text) if isinstance(text, BaseException) else str(text)
        except Exception as error:
            text = f"<{type(text).__name__} without words: {type(error).__name__}>"
    shown = text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
    if shown.isprintable():
        return shown
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in shown
    )


class _Printable(logging.Filter):
    """A log filter that keeps a record on one line, because a peer may have sent texts in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                printable(value) if isinstance(value, str) else value for value in record.args
            )
        return True


_PRINTABLE = _Printable()


def logger(name: str) -> logging.Logger:
    """Return the logger of a module, with a filter that makes texts printable and bounds them."""
    found = logging.getLogger(name)
    found.addFilter(_PRINTABLE)  # adding it again does nothing
    return found


class AmqpError(Exception):
    """The base class of all errors of this driver.  Any thread.

    :param message: what happened, in words; empty for the default of the class.
    :param host: ``hostname:port`` of the peer, never with credentials.
    :param address: AMQP address concerned.
    :param message_id: id of the message concerned.
    :param condition: symbol of the peer's AMQP error condition.
    :param description: the peer's text for the condition.
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

    def for_message(self, address: str | None, message_id: object) -> "AmqpError":
        """Return this error as the error of one message.

        :returns: a copy, since one error may fail many messages; the error itself if it names a
            message already
        """
        if self.message_id is not None:
            return self
        error = copy.copy(self)
        error.__cause__ = self.__cause__
        error.address = self.address or address
        error.message_id = message_id
        return error

    def details(self) -> dict[str, object]:
        """Return the fields that are set, by name, in the order of display."""
        fields = {
            "host": self.host,
            "address": self.address,
            "message-id": self.message_id,
            "condition": self.condition,
            "description": self.description,
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}

    def __str__(self) -> str:
        """Return one printable line; the attributes keep the peer's texts unescaped."""
        details = ", ".join(f"{name}={printable(value)}" for name, value in self.details().items())
        message = printable(self.message, 4 * MAX_SHOWN_CHARS)
        return f"{message} ({details})" if details else message


class ConnectionFailed(AmqpError):
    """A failure to connect; nothing was sent."""

    summary = "could not connect"


class _Interrupted(AmqpError):
    """The base class of errors that interrupt an operation.

    :param in_doubt: whether the interrupted message was on the wire.
    """

    def __init__(self, message: str = "", *, in_doubt: bool = False, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.in_doubt = in_doubt


class ConnectionLost(_Interrupted):
    """The loss of an open connection."""

    summary = "connection lost"


class AuthenticationFailed(AmqpError):
    """A peer's refusal of our identity or of our rights (SASL, unauthorized-access)."""

    summary = "authentication failed"


class TlsFailed(AmqpError):
    """A failure to make a trusted TLS session with the peer."""

    summary = "TLS failed"


class SessionEnded(_Interrupted):
    """A session that the peer ended, together with all its links."""

    summary = "session ended by the peer"


class LinkFailed(_Interrupted):
    """A link that the peer refused or detached."""

    summary = "link failed"


class DeliveryRejected(AmqpError):
    """Outcome REJECTED (3.4.3): the peer finds the message invalid, or does not want it."""

    summary = "message rejected"


class DeliveryReleased(AmqpError):
    """Outcome RELEASED (3.4.4): no receiver took the message, and none processed it."""

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


class MessageTooLarge(AmqpError):
    """A message that was not sent: it is larger than the link, or our own limit, allows."""

    summary = "message too large"


class InDoubt(AmqpError):
    """A message of unknown fate: connection or link was lost while it was unsettled."""

    summary = "delivery in doubt: connection or link lost before the outcome"
    in_doubt = True


class DeadlineExpired(AmqpError):
    """An operation whose deadline has passed.

    :param stage: what the operation was waiting for, for example ``connection``, ``credit``,
        ``acknowledgement`` or ``reply``.
    """

    summary = "timed out"

    def __init__(self, message: str = "", *, stage: str = "", **fields: Any) -> None:
        super().__init__(message or (f"timed out waiting for {stage}" if stage else ""), **fields)
        self.stage = stage


class LoopDied(AmqpError):
    """The end of the I/O thread by an unexpected error; the transport is unusable."""

    summary = "the I/O thread has died"


class Closed(AmqpError):
    """A transport or listener that the application has closed."""

    summary = "closed"


class DecodeError(AmqpError):
    """A received message that cannot be decoded.

    :param offset: byte at which decoding failed; None if the error is not about bytes.
    """

    summary = "message cannot be decoded"

    def __init__(self, message: str = "", *, offset: int | None = None, **fields: Any) -> None:
        if offset is not None:
            message = f"{message or self.summary} at byte {offset}"
        super().__init__(message, **fields)
        self.offset = offset


class UnsupportedFeature(AmqpError):
    """A feature that the message bus does not have; the message names the bus."""

    summary = "not supported by this message bus"


# The one map from condition symbol to exception. For a condition that is not listed (such as the
# general ones of 2.8.15) from_condition() takes its argument ``default``.
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

# With these conditions a retry cannot help: the request itself is wrong.
_PERMANENT = frozenset(
    {
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:link:message-size-exceeded",
    }
)

# A rejection is final except with these conditions. They may be temporary: a queue is full, or the
# address is not known yet (routers answer not-found until it has spread through the mesh).
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
    :param default: class for the place where the peer reported the condition (ConnectionLost,
        SessionEnded, LinkFailed, DeliveryRejected ...). A condition that belongs to another
        place overrides ``default``, unless ``default`` stands for the outcome of a delivery.
    :param fields: further keyword arguments of the exception (host, address, ...).
    """
    kind = default
    if name is not None and not issubclass(default, _DELIVERY_OUTCOMES):
        kind = _CONDITIONS.get(name, default)
    if not issubclass(kind, _Interrupted):
        fields.pop("in_doubt", None)
    return kind(condition=name, description=description, **fields)


def too_large(size: int, limit: int, **fields: Any) -> MessageTooLarge:
    """Make the error for a message that is too large to be sent.

    :param size: size of the message, bytes.
    :param limit: largest permitted size, bytes.
    """
    return MessageTooLarge(
        f"message of {size} bytes is larger than the {limit} bytes that may be sent "
        "(option max_message_size here, or the limit of the peer)",
        **fields,
    )


def redirect_refused(error: AmqpError, reason: str) -> AmqpError:
    """Copy the error of a redirect, and add why the driver does not follow the redirect."""
    copied = copy.copy(error)
    copied.message = f"{error.message}; the redirect is not followed: {reason}"
    return copied


def recoverable(exc: BaseException) -> bool:
    """Return whether a retry of the same operation can succeed and cannot duplicate a message.

    This says nothing about connections: after *any* failure the driver tries the next host.
    """
    if not isinstance(exc, AmqpError) or exc.in_doubt:
        return False
    if isinstance(exc, DeliveryModified):
        return not exc.failed and not exc.undeliverable
    if isinstance(exc, DeliveryRejected):
        return exc.condition in _TRANSIENT_REJECTIONS
    if isinstance(exc, (SessionEnded, LinkFailed)):
        return exc.condition not in _PERMANENT
    return isinstance(exc, (ConnectionFailed, ConnectionLost, DeliveryReleased))


def nobody_there(exc: BaseException) -> bool:
    """Return whether the message failed because no queue or receiver was there to take it."""
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
    """Translate an error into the exception that oslo.messaging documents for ``send``.

    The caller raises the result ``from exc``. Application threads.

    :param with_timeout: the application gave a timeout of its own.
    :param at_least_once: the application set ``at_least_once`` in its transport options.
    :param exchange, routing_key, message: carried by MessageUndeliverable.
    :returns: MessagingTimeout, MessageUndeliverable or MessageDeliveryFailure.
    """
    # Imported late to keep this module cheap to import; a sender has loaded oslo.messaging.
    from oslo_messaging import exceptions as oslo

    if with_timeout and isinstance(exc, DeadlineExpired):
        return oslo.MessagingTimeout(str(exc))  # type: ignore[no-any-return]
    if at_least_once and nobody_there(exc):
        return oslo.MessageUndeliverable(exc, exchange, routing_key, message)  # type: ignore[no-any-return]
    return oslo.MessageDeliveryFailure(str(exc) or repr(exc))  # type: ignore[no-any-return]
