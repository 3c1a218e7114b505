# SPDX-License-Identifier: Apache-2.0

"""Faults between a service and the bus: late, doubled and broken messages.

On the caller's thread.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator

from amqp1_driver.pipeline.generate.notification import Notification
from amqp1_driver.pipeline.generate.story import BROKEN, Emission


@dataclasses.dataclass(frozen=True)
class Faults:
    """The shares of notifications, from 0 to 1, that each fault affects.

    :param late: share that waits until the notification ``late_by`` places later is due
    :param doubled: share that goes out twice, the second time with another AMQP message-id
    :param broken: share followed by a message that silver cannot read
    :param rabbit: share in the envelope of the rabbit driver
    :param late_by: delay of a late notification, counted in notifications
    """

    late: float = 0.0
    doubled: float = 0.0
    broken: float = 0.0
    rabbit: float = 0.0
    late_by: int = 500


#: the faults of a bad day
REAL = Faults(late=0.01, doubled=0.01, broken=0.002, rabbit=0.3)


def emissions(
    notifications: Iterable[Notification], faults: Faults, seed: int
) -> Iterator[Emission]:
    """Yield the messages to send.

    Every notification is among them at least once. At most ``late_by`` of them wait at a time.
    """
    rng = random.Random(seed)
    held: list[tuple[int, Emission]] = []
    for number, notification in enumerate(notifications):
        form = "rabbit" if rng.random() < faults.rabbit else "amqp"
        emission = Emission(
            notification.message_id, notification.body(form), notification.priority.lower()
        )
        while held and held[0][0] <= number:
            yield held.pop(0)[1]
        if rng.random() < faults.late:
            held.append((number + faults.late_by, emission))
            continue
        yield emission
        if rng.random() < faults.doubled:
            yield emission._replace(message_id=f"{emission.message_id}-again")
        if rng.random() < faults.broken:
            yield Emission(f"broken-{number}", rng.choice(BROKEN))
    for _, emission in held:
        yield emission
