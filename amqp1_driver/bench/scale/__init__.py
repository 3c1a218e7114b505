# SPDX-License-Identifier: Apache-2.0

"""Growth of time, memory and fairness with n: the number of targets, listeners, calls, clients."""
