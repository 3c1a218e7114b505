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

"""How the bus reads addresses. Pure functions, any thread.

The bus knows nothing of RPC or notifications: an address is a name, and only its form says whether
it is a topic (every subscriber gets a copy) or a queue (one of them gets the message).
"""

from __future__ import annotations

POOL_SEPARATOR = "::"
_LEGACY_TOPIC = "broadcast."
_ROUTABLE_TOPIC = "multicast"


def is_multicast(address: str) -> bool:
    """True for ``…/multicast/…`` (routable syntax) and ``broadcast.…`` (legacy syntax)."""
    if address.startswith(_LEGACY_TOPIC):
        return True
    return "/" in address and _ROUTABLE_TOPIC in address.split("/")


def normalise(address: str) -> str:
    """Router view of an address: ``amqp:``, ``amqp://host`` and a leading slash do not count."""
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
