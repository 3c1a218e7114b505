# SPDX-License-Identifier: Apache-2.0

"""Publishing of rows: many messages are under way, and the bus has to accept each of them.

Planning a write imports ``options`` and ``rows`` only; ``publisher`` imports the driver's client.
A task uses all three on its own thread.
"""
