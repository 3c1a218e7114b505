# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
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
