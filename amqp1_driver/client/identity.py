# SPDX-License-Identifier: Apache-2.0


"""The identity of this process in a bus's lists of connections.  Any thread.

Routers (``skstat -c``, ``qdstat -c``) list the container id; RabbitMQ's management lists the
properties of the Open frame, above all ``connection_name``. Of the command line an identity has
only the name of the program, since arguments may hold secrets.
"""

import dataclasses
import functools
import importlib.metadata
import os
import platform
import re
import socket
import sys

_MOST = 64
_OTHERS = re.compile(r"[^\w.-]+", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """The identity of one transport of one process.

    :param program: name of the program, without its path
    :param node: name of the machine
    :param purpose: use of the transport: ``rpc``, ``notifications``, ...; empty if unknown
    """

    program: str
    node: str
    pid: int
    purpose: str = ""

    def container(self, name: str | None, unique: str) -> str:
        """Make the container id.

        :param name: option ``container_name``, used instead of the program's name; may be None
        :param unique: a text that differs for each transport of a process
        """
        return f"{_plain(name or self.program)}-{_plain(self.node)}-{self.pid}-{unique}"

    def properties(self) -> dict[str, object]:
        """Make the properties of the Open frame.

        ``process``, ``node`` and ``pid`` have the names that oslo.messaging's amqp1 driver used.
        """
        name = f"{self.program} on {self.node} (pid {self.pid})"
        found: dict[str, object] = {
            "product": "amqp1-driver",
            "version": version(),
            "platform": f"Python {platform.python_version()}",
            "connection_name": f"{name}: {self.purpose}" if self.purpose else name,
            "process": self.program,
            "node": self.node,
            "pid": self.pid,
        }
        if self.purpose:
            found["purpose"] = self.purpose
        return found


def identity(purpose: str = "") -> Identity:
    """Make the identity of a transport of this process."""
    return Identity(
        _program(getattr(sys, "argv", None) or [""]), socket.gethostname(), os.getpid(), purpose
    )


@functools.cache
def version() -> str:
    """Return the version of this package; empty if it is not installed."""
    try:
        return importlib.metadata.version("amqp1-driver")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _program(argv: list[str]) -> str:
    """Return the name of the program; for ``python -m package`` it is the package's name."""
    folder, name = os.path.split(argv[0])
    if name == "__main__.py":
        name = os.path.basename(folder)
    if name in ("", "-c", "-m", "-"):
        name = "python"
    return name[:_MOST]


def _plain(text: str) -> str:
    """Replace characters that a bus may refuse: some buses make addresses from container ids."""
    return _OTHERS.sub("_", text)[:_MOST]
