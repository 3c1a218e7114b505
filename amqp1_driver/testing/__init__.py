# SPDX-License-Identifier: Apache-2.0
"""Test tools for AMQP 1.0 clients, for this project and for others.

``clock`` is a clock moved by hand. ``wire``, ``performatives``, ``messages`` and ``frames`` are a
small AMQP 1.0 codec. The codec is neither the driver's nor proton's, so that no mistake is common
to both sides. ``peer`` is a server that follows a script frame by frame. ``proxy`` is a TCP proxy
with faults. ``fixture`` runs the embedded bus in a thread or in a process.

Nothing of the driver imports this package.
"""
