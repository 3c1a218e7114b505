# SPDX-License-Identifier: Apache-2.0

"""A check, before a command waits, whether a host of a URL accepts connections. Any thread."""

from __future__ import annotations

import socket
from urllib.parse import parse_qs, urlsplit

from amqp1_driver.masking import MASK, masked

#: limit for the connection to each host, seconds
PATIENCE = 3.0
_PORTS = {"amqps": 5671, "https": 443}


def hosts(url: str) -> list[tuple[str, int]]:
    """Return host and port of each host of a transport URL, without users and passwords.

    :returns: nothing for a malformed URL: any part of it may be a password
    """
    parts = urlsplit(masked(url))
    if parts.netloc == MASK:
        return []
    default = _PORTS.get(parts.scheme, 5672)
    found = []
    for place in parts.netloc.split(","):
        name, _, port = place.rpartition("@")[2].rpartition(":")
        if not name or not port.isdecimal():
            name, port = place.rpartition("@")[2], str(default)
        found.append((name.strip("[]") or "localhost", int(port)))
    return found


def nobody_at(url: str) -> str | None:
    """Return a text that no host of the URL accepts connections, and why; None if one does.

    If the URL names a proxy or is malformed, this does not connect, and returns None.
    """
    if "proxy" in parse_qs(url.partition("?")[2]):
        return None
    problems = []
    for host, port in hosts(url):
        try:
            socket.create_connection((host, port), PATIENCE).close()
            return None
        except (OSError, OverflowError, UnicodeError) as error:
            problems.append(f"{host}:{port} ({getattr(error, 'strerror', None) or error})")
    return "nobody can be reached at " + ", ".join(problems) if problems else None
