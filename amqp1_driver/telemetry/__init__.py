# SPDX-License-Identifier: Apache-2.0

"""Events of the driver's work, and the consumers that keep them. Each module names its threads.

The bottom layer: it imports nothing else of the package, no proton and no oslo. No code here may
block a caller of the driver, or raise an error in it.
"""
