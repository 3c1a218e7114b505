# SPDX-License-Identifier: Apache-2.0
"""A cloud of real OpenStack services on one machine, and a scenario through its public APIs."""
