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

"""What goes wrong between a service and the bus: late, doubled and broken messages."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator

from amqp1_driver.pipeline.generate.notification import Notification
from amqp1_driver.pipeline.generate.story import BROKEN, Emission


@dataclasses.dataclass(frozen=True)
class Faults:
    """Shares from 0 to 1.

    :param late: held back until ``late_by`` others have gone
    :param doubled: sent again at once, under another message id of AMQP
    :param broken: followed by one that can't be read
    :param rabbit: in the envelope of the rabbit driver
    """

    late: float = 0.0
    doubled: float = 0.0
    broken: float = 0.0
    rabbit: float = 0.0
    late_by: int = 500


#: a bad day
REAL = Faults(late=0.01, doubled=0.01, broken=0.002, rabbit=0.3)


def emissions(notifications: Iterable[Notification], faults: Faults, seed: int
              ) -> Iterator[Emission]:
    """The messages to send: every notification at least once, at most ``late_by`` held back."""
    rng = random.Random(seed)
    held: list[tuple[int, Emission]] = []
    for number, notification in enumerate(notifications):
        form = "rabbit" if rng.random() < faults.rabbit else "amqp"
        emission = Emission(notification.message_id, notification.body(form),
                            notification.priority.lower())
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
