# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that go away and come back."""

from __future__ import annotations

import random
import socket


def lasting_port() -> int:
    """A port of 127.0.0.1 that is free, and that stays so while its server is away.

    It is below those that the kernel gives to outgoing connections: a client that tries to reach
    a server on one of those may be given the very port that it tries (and then reach itself).
    """
    rng = random.Random()
    while True:
        port = rng.randrange(20000, 32768)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def closed_port() -> socket.socket:
    """A socket that is bound on 127.0.0.1 but does not listen: its port refuses connections."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock
