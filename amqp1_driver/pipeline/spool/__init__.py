# SPDX-License-Identifier: Apache-2.0

"""The durable spool between the bus and Spark, in files of a folder.  Any thread.

The collector appends rows to disc before it acknowledges their messages to the bus. When Spark
commits rows, the spool deletes files whose rows are all committed. A folder has one writer at a
time. The package needs pyarrow, but neither Spark nor the driver.
"""

from amqp1_driver.pipeline.spool.caps import SpoolLimits
from amqp1_driver.pipeline.spool.errors import Damaged, Fenced, Full, Missing, SpoolError
from amqp1_driver.pipeline.spool.rows import SCHEMA, UNDECODABLE, Row
from amqp1_driver.pipeline.spool.spool import Appended, Spool

__all__ = [
    "SCHEMA",
    "UNDECODABLE",
    "Appended",
    "Damaged",
    "Fenced",
    "Full",
    "Missing",
    "Row",
    "Spool",
    "SpoolError",
    "SpoolLimits",
]
