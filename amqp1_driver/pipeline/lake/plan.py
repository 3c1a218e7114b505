# SPDX-License-Identifier: Apache-2.0

"""The plan of a job; without Spark, so that a command checks its options before it starts Spark.

Pure, for any thread.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

#: default number of bronze's files that one batch of silver takes, at most
FILES_PER_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan of what one job does.

    :param source: options of the data source ``amqp1``; None: another program fills bronze
    :param bronze: a folder with bronze's files instead of the lake's own
    :param every: seconds between batches; None: process what is there, and end
    :param gold_every: seconds between computations of gold in a continuous run
    :param dedup_within: see :class:`SilverStage`
    :param until: end of the window, UTC without a zone; see :func:`gold.refresh`
    :param files_per_batch: files of bronze that one batch of silver takes, at most
    """

    source: Mapping[str, str] | None = None
    bronze: str | None = None
    every: float | None = None
    gold_every: float = 60.0
    dedup_within: str | None = None
    until: datetime.datetime | None = None
    files_per_batch: int = FILES_PER_BATCH
