# SPDX-License-Identifier: Apache-2.0
"""Codec of AMQP 1.0 frames: see :mod:`amqp1_driver.wire.frames`."""

from amqp1_driver.wire.frames import *  # noqa: F403
