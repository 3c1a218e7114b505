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

"""Options: what is declared on RabbitMQ."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import seconds

# fmt: off
OPTS: list[cfg.Opt] = [
    seconds("queue_expiry", 1800.0, "RabbitMQ deletes a queue for RPC, or of a notification "
            "pool, that nobody has used for this long.", minimum=1),
]
# fmt: on


@dataclasses.dataclass(frozen=True, kw_only=True)
class RabbitmqSettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

    queue_expiry: float
