# SPDX-License-Identifier: Apache-2.0
"""Codec of AMQP 1.0 values: see :mod:`amqp1_driver.wire.types`."""

from amqp1_driver.wire.types import *  # noqa: F403
