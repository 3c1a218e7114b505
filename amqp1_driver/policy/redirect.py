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

"""Where a peer sends us instead (AMQP 1.0, 2.8.16 and 2.8.18), and whether we go there.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amqp1_driver.options import Host

#: the conditions that redirect
CONNECTION = "amqp:connection:redirect"
LINK = "amqp:link:redirect"
#: a redirect that names no other host: at most another address
SAME_PLACE = "it leads to the same place"
#: so many redirects are followed within so many seconds
LIMIT = 5
WINDOW = 60.0
#: schemes of a redirect that mean no TLS, and that mean TLS
_PLAIN, _TLS = ("amqp", "ws", "http"), ("amqps", "wss", "https")


@dataclass(frozen=True, slots=True)
class Redirect:
    """The fields of the error's info map; None for what it does not name.

    :param hostname: of the container: for the Open frame, SASL and TLS
    :param network_host: name or IP address to connect to
    :param address: of the node at that container (links only)
    :param scheme: an extension that some brokers send: ``amqp``, ``amqps``, ``ws``, ``wss``
    """

    hostname: str | None = None
    network_host: str | None = None
    port: int | None = None
    address: str | None = None
    scheme: str | None = None

    @classmethod
    def parse(cls, info: Any) -> "Redirect":
        """Never raises, whatever the peer has sent."""
        given = ({_text(key): value for key, value in info.items()}
                 if isinstance(info, Mapping) else {})
        port = given.get("port")
        return cls(hostname=_text(given.get("hostname")),
                   network_host=_text(given.get("network-host")),
                   port=int(port) if isinstance(port, int) and 0 < port < 65536 else None,
                   address=_text(given.get("address")), scheme=_text(given.get("scheme")))

    def elsewhere(self, host: Host) -> bool:
        """Whether it leads to another place than the present one."""
        return self.target(host) != host

    def target(self, host: Host) -> Host:
        """The host it names; what it leaves out, and who we are, is as at the present one."""
        network = self.network_host or (host.network if self.hostname is None else None)
        hostname = self.hostname or self.network_host or host.hostname
        if network == hostname:
            network = None
        return Host(hostname, self.port or host.port, host.username, host.password, network)

    def refusal(self, tls: bool) -> str | None:
        """Why it can't be followed by what it says; None: it can.

        :param tls: whether we connect by TLS, which is never given up
        """
        scheme = (self.scheme or "").lower()
        if tls and scheme in _PLAIN:
            return f"it leads away from TLS (scheme {scheme})"
        if not tls and scheme in _TLS:
            return f"it wants TLS (scheme {scheme}), which is not configured"
        if scheme and scheme not in _PLAIN + _TLS:
            return f"its scheme {scheme} is unknown"
        return None


class Trail:
    """The redirects that were followed of late: what keeps them from going on for ever."""

    def __init__(self) -> None:
        self._steps: list[tuple[float, str]] = []

    def step(self, source: str, target: str, now: float) -> str | None:
        """Take a step, unless there were too many, or it leads back.

        :returns: why it is not taken; None: it is, and was noted
        """
        self._steps = [step for step in self._steps if now - step[0] < WINDOW]
        if target == source or any(target == before for _, before in self._steps):
            return "it leads in a circle"
        if len(self._steps) >= LIMIT:
            return f"there were {LIMIT} within {WINDOW:g} s already"
        self._steps.append((now, source))
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, (bytes, memoryview)):
        value = bytes(value).decode("utf-8", "replace")
    return str(value) if isinstance(value, str) and value else None
