# SPDX-License-Identifier: Apache-2.0

"""Decisions of the driver, separate from the code that carries them out.

Pure: callers pass in the clock and the source of randomness. Each class names its threads.
Import ``failover`` as a module: ``failover.start``, ``next_attempt``, ``succeeded``, ``failed``
and ``lost``.
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
