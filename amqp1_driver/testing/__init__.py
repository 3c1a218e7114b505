# SPDX-License-Identifier: Apache-2.0
"""Test tools for AMQP 1.0 clients, for this project and for others.

``clock`` is a clock moved by hand. ``peer`` is a server that follows a script frame by frame; its
performatives and messages are those of :mod:`amqp1_driver.wire`, a small AMQP 1.0 codec, which
``wire``, ``performatives``, ``messages`` and ``frames`` export. ``proxy`` is a TCP proxy with
faults. ``fixture`` runs the embedded bus in a thread or in a process.

Nothing of the driver imports this package.
"""
