# SPDX-License-Identifier: Apache-2.0
"""Test tools for AMQP 1.0 clients, for this project and for others.

``clock`` is a clock that moves only on request. ``peer`` is a server that follows a script frame by
frame. Its performatives and messages are those of the small AMQP 1.0 codec
:mod:`amqp1_driver.wire`; the modules ``wire``, ``performatives``, ``messages`` and ``frames`` of
this package re-export that codec. ``proxy`` is a TCP proxy with faults. ``fixture`` runs the
embedded bus in a thread or in a process.

Nothing of the driver imports this package.
"""
