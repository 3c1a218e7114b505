# SPDX-License-Identifier: Apache-2.0

"""The errors of a spool; any thread raises them."""


class SpoolError(RuntimeError):
    """The failure of an operation on the spool; do not acknowledge its messages to the bus."""


class Fenced(SpoolError):
    """The error of a process that may no longer write, since another one has opened the spool."""


class Full(SpoolError):
    """The error when rows do not fit below the caps of the spool, which has written none of them.

    The rows fit after a commit, unless one row is larger than ``SpoolLimits.largest``.
    """


class Damaged(SpoolError):
    """The error when a folder is not a spool, or its files contradict each other."""


class Missing(SpoolError):
    """The error when rows of the spool are lost."""
