# SPDX-License-Identifier: Apache-2.0

"""The Spark data source ``amqp1``, in Spark's planning process and its workers."""

from amqp1_driver.pipeline.source.batch import confirm
from amqp1_driver.pipeline.source.datasource import Amqp1DataSource

__all__ = ["Amqp1DataSource", "confirm"]
