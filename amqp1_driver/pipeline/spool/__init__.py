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

"""The durable spool between the bus and Spark: files and pyarrow, neither Spark nor the driver.

What is appended is on disc before it is acknowledged to the bus; what Spark has committed is
purged. A folder has one writer at a time.
"""

from amqp1_driver.pipeline.spool.caps import SpoolLimits
from amqp1_driver.pipeline.spool.errors import Damaged, Fenced, Full, Missing, SpoolError
from amqp1_driver.pipeline.spool.rows import SCHEMA, Row
from amqp1_driver.pipeline.spool.spool import Appended, Spool

__all__ = [
    "SCHEMA",
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
