# SPDX-License-Identifier: Apache-2.0

"""The common part of clients and servers that measure no driver of oslo.messaging."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


class Part:
    """A client or a server that has nothing to open, to close, or to report beside its counts."""

    #: what is measured, and the distributions that it consists of
    driver = ""
    distributions: tuple[str, ...] = ()

    def open(self) -> None:
        """Do nothing: the first message connects."""

    def close(self) -> None:
        """Do nothing: the process ends."""

    def about(self) -> dict[str, Any]:
        """Return what is measured, and the versions of its libraries."""
        return {
            "driver": self.driver,
            "versions": {name: version(name) for name in self.distributions},
        }

    def extra(self) -> dict[str, Any]:
        """Return no further fields."""
        return {}
