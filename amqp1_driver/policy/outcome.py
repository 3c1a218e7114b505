# SPDX-License-Identifier: Apache-2.0

"""The decision that follows from a sent message's outcome (AMQP 1.0 section 3.4). Pure."""

import enum
from dataclasses import dataclass
from typing import Any

from amqp1_driver.exceptions import (
    AmqpError,
    DeliveryModified,
    DeliveryRejected,
    DeliveryReleased,
    InDoubt,
    nobody_there,
)
from amqp1_driver.policy.retry import Retry

#: error condition of a message that is larger than the link allows (2.8.18)
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"


class Outcome(enum.Enum):
    """The outcome of a delivery for its sender."""

    ACCEPTED = "accepted"  # 3.4.2
    REJECTED = "rejected"  # 3.4.3
    RELEASED = "released"  # 3.4.4
    MODIFIED = "modified"  # 3.4.5
    #: modified with delivery-failed and undeliverable-here; only for settling received messages
    UNDELIVERABLE = "undeliverable"
    IN_DOUBT = "in-doubt"  # link or connection lost while unsettled


class Action(enum.Enum):
    """The next step for the message."""

    DONE = "done"
    RESEND = "resend"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Disposition:
    """An outcome with its details. Immutable, for any thread.

    :param condition: error condition of REJECTED.
    :param description: error description of REJECTED.
    :param failed: delivery-failed of MODIFIED.
    :param undeliverable: undeliverable-here of MODIFIED.
    """

    outcome: Outcome
    condition: str | None = None
    description: str | None = None
    failed: bool = False
    undeliverable: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, and the error that is its reason; only DONE has no error."""

    action: Action
    error: AmqpError | None = None


DONE = Decision(Action.DONE)
ACCEPTED = Disposition(Outcome.ACCEPTED)
IN_DOUBT = Disposition(Outcome.IN_DOUBT)


def decide(
    disposition: Disposition,
    *,
    resend_released: bool,
    retry: Retry,
    expired: bool,
    best_effort: bool = False,
    **fields: Any,
) -> Decision:
    """Decide what to do after ``disposition``.

    The driver resends a message only if it is certain that no receiver processed it, and a receiver
    may still take it later. That is so for RELEASED, and for MODIFIED with neither delivery-failed
    nor undeliverable-here. Even then the driver resends only if ``resend_released`` allows it,
    retries are left and the deadline has not passed.

    :param resend_released: resending is allowed (option ``resend_released``).
    :param expired: the deadline of the message has passed.
    :param best_effort: having no receivers is not an error (fanout).
    :param fields: host, address and message_id for the error.
    """
    error = _error(disposition, fields)
    if error is None or (best_effort and nobody_there(error)):
        return DONE
    resend = resend_released and _untouched(disposition) and not expired and not retry.exhausted
    return Decision(Action.RESEND if resend else Action.FAIL, error)


def _untouched(disposition: Disposition) -> bool:
    if disposition.outcome is Outcome.MODIFIED:
        return not disposition.failed and not disposition.undeliverable
    return disposition.outcome is Outcome.RELEASED


def _error(disposition: Disposition, fields: dict[str, Any]) -> AmqpError | None:
    match disposition.outcome:
        case Outcome.ACCEPTED:
            return None
        case Outcome.REJECTED:
            return DeliveryRejected(
                condition=disposition.condition, description=disposition.description, **fields
            )
        case Outcome.RELEASED:
            return DeliveryReleased(**fields)
        case Outcome.MODIFIED:
            return DeliveryModified(
                failed=disposition.failed, undeliverable=disposition.undeliverable, **fields
            )
    return InDoubt(**fields)
