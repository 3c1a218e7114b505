# SPDX-License-Identifier: Apache-2.0

"""Capacity planning of a mesh of routers: a discrete-event model, its costs, sweeps and checks.

The model (``setup``, ``costs``, ``machine``, ``windows``, ``mesh``, ``sources``, ``result``) needs
simpy, but neither Spark nor the driver, and its results do not depend on the machine that runs it.
``measure`` and ``fit`` derive costs from real runs, ``plan`` makes the rows of a sweep, ``sweep``
runs them on Spark. The package has no threads of its own: a simulation runs on the thread that
calls ``simulate``.
"""
