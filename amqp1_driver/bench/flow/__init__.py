# SPDX-License-Identifier: Apache-2.0

"""A benchmark of flow control: senders and a receiver in one process, on RabbitMQ. Main thread.

One transport serves a fast queue and a slow one: first each queue alone, then both at the same
time. The rate that one queue loses while the other is busy, too, is the cost of flow control that
acts on the whole connection.
"""
