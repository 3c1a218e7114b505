# SPDX-License-Identifier: Apache-2.0

"""An embedded AMQP 1.0 bus for development and tests only: router, broker or Service Bus.

The bus is a foreign peer of the driver, so that no mistake is common to both. It imports nothing of
the driver except :mod:`amqp1_driver.flowframe`.
"""

from .bus import MODES, Bus, ConnectionInfo, LinkInfo
from .counters import Counters
from .namespace import Namespace
from .queues import Limits
from .sas import Rule

__all__ = ["MODES", "Bus", "ConnectionInfo", "Counters", "Limits", "LinkInfo", "Namespace", "Rule"]
