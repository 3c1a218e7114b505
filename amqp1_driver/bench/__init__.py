# SPDX-License-Identifier: Apache-2.0

"""A benchmark of oslo.messaging drivers, ours or any other, through the public interface alone.

The package imports nothing of our driver, so it measures and reports all drivers in the same way.
"""
