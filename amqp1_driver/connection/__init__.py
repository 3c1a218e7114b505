# SPDX-License-Identifier: Apache-2.0

"""One logical connection to the bus: its links, messages and subscriptions; sans-I/O."""
