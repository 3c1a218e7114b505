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

"""What follows from the outcome of a sent message (AMQP 1.0 section 3.4)."""

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


class Outcome(enum.Enum):
    """How a delivery ended for its sender."""

    ACCEPTED = "accepted"  # 3.4.2
    REJECTED = "rejected"  # 3.4.3
    RELEASED = "released"  # 3.4.4
    MODIFIED = "modified"  # 3.4.5
    IN_DOUBT = "in-doubt"  # link or connection lost while unsettled


class Action(enum.Enum):
    """What to do with the message."""

    DONE = "done"
    RESEND = "resend"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Disposition:
    """An outcome with its details; immutable, any thread.

    condition, description: the error of REJECTED. failed, undeliverable: delivery-failed and
    undeliverable-here of MODIFIED.
    """

    outcome: Outcome
    condition: str | None = None
    description: str | None = None
    failed: bool = False
    undeliverable: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """An action; the error that led to it is None for DONE only."""

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
    for_whoever: bool = False,
    **fields: Any,
) -> Decision:
    """What to do after ``disposition``.

    for_whoever: the message is for all who are there, be it nobody (a fanout): that nobody took
    it is no failure.

    Only a message that certainly was not processed, and may be taken by somebody later, is
    ever sent again: RELEASED, and MODIFIED without delivery-failed and undeliverable-here;
    and these only if the option allows it, retries are left and the deadline is not over.

    fields: host, address, message_id for the error.
    """
    error = _error(disposition, fields)
    if error is None or (for_whoever and nobody_there(error)):
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
