# SPDX-License-Identifier: Apache-2.0

"""Publishing of rows: many messages are under way, and each counts once the bus has accepted it.

Planning a write imports ``options`` and ``rows`` only; ``publisher`` imports the driver's client.
A task uses all three on its own thread.
"""
