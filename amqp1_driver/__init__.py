# SPDX-License-Identifier: Apache-2.0

"""AMQP 1.0 driver for oslo.messaging."""
