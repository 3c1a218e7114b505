# SPDX-License-Identifier: Apache-2.0

"""Queues, bindings, tokens and locks that a node needs before a link to it is opened; sans-I/O."""
