# SPDX-License-Identifier: Apache-2.0
"""Codec of AMQP 1.0 messages: see :mod:`amqp1_driver.wire.messages`."""

from amqp1_driver.wire.messages import *  # noqa: F403
