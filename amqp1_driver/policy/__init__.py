# SPDX-License-Identifier: Apache-2.0

"""Decisions of the driver, separate from the code that carries them out.

Pure: callers pass in the clock and the source of randomness. Each class names its threads.
"""
