# SPDX-License-Identifier: Apache-2.0

"""The bus's interpretation of addresses. Pure functions, any thread.

The bus does not know about RPC or notifications. For the bus an address is a name. The form of the
name determines whether it is a topic (every subscriber gets a copy) or a queue (one consumer gets
the message).
"""

from __future__ import annotations

POOL_SEPARATOR = "::"
_LEGACY_TOPIC = "broadcast."
_ROUTABLE_TOPIC = "multicast"


def is_multicast(address: str) -> bool:
    """Return True for ``…/multicast/…`` (routable syntax) and ``broadcast.…`` (legacy syntax)."""
    if address.startswith(_LEGACY_TOPIC):
        return True
    return "/" in address and _ROUTABLE_TOPIC in address.split("/")


def normalise(address: str) -> str:
    """Return the address in router form: without ``amqp:``, ``amqp://host`` and leading slashes."""
    for scheme in ("amqps:", "amqp:"):
        if address.startswith(scheme):
            address = address[len(scheme) :]
            if address.startswith("//"):
                _, _, address = address[2:].partition("/")
            break
    return address.lstrip("/")


def split_pool(address: str) -> tuple[str, str | None]:
    """Split ``ADDRESS::POOL`` (a fully qualified queue name) into address and pool."""
    name, separator, pool = address.partition(POOL_SEPARATOR)
    return name, pool if separator else None
