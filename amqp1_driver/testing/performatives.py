# SPDX-License-Identifier: Apache-2.0
"""Codec of AMQP 1.0 performatives: see :mod:`amqp1_driver.wire.performatives`."""

from amqp1_driver.wire.performatives import *  # noqa: F403
