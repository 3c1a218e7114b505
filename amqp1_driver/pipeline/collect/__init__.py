# SPDX-License-Identifier: Apache-2.0

"""Collection of messages from the bus into the spool: read under credit, store, acknowledge."""

from amqp1_driver.pipeline.collect.collector import Collector

__all__ = ["Collector"]
