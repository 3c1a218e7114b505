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

"""Decisions of the driver, apart from whoever carries them out.

Pure: the clock and the source of randomness are passed in. ``failover`` is used as a module:
``failover.start``, ``next_attempt``, ``succeeded``, ``failed`` and ``lost``.
"""

from amqp1_driver.policy import failover
from amqp1_driver.policy.backoff import Backoff
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.duplicates import DuplicateFilter
from amqp1_driver.policy.failover import Failover, HostState
from amqp1_driver.policy.outcome import Action, Decision, Disposition, Outcome, decide
from amqp1_driver.policy.retry import Retry

__all__ = [
    "Action",
    "Backoff",
    "CreditWindow",
    "Deadline",
    "Decision",
    "Disposition",
    "DuplicateFilter",
    "Failover",
    "HostState",
    "Outcome",
    "Retry",
    "decide",
    "failover",
]
