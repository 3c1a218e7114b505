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

"""What the job is to do; without Spark, so that options are checked before it is started."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

#: files of bronze that one batch of silver takes at most, unless told otherwise
FILES_PER_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to do.

    :param source: options of the data source ``amqp1``; None: bronze is filled by somebody else
    :param bronze: a folder with bronze's files instead of the lake's own
    :param every: seconds between batches, None to take what is there and end
    :param gold_every: seconds between computations of gold, where it goes on
    :param dedup_within: see SilverStage
    :param until: end of the window, UTC without a zone; see :func:`gold.refresh`
    """

    source: Mapping[str, str] | None = None
    bronze: str | None = None
    every: float | None = None
    gold_every: float = 60.0
    dedup_within: str | None = None
    until: datetime.datetime | None = None
    files_per_batch: int = FILES_PER_BATCH
