# SPDX-License-Identifier: Apache-2.0

"""Redirects by a peer (AMQP 1.0, 2.8.16 and 2.8.18), and the rules for following them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from amqp1_driver.options import Host

#: error conditions that redirect a connection or a link
CONNECTION = "amqp:connection:redirect"
LINK = "amqp:link:redirect"
#: reason for not following a redirect to the present host, perhaps to another address there
SAME_PLACE = "it leads to the same place"
#: most redirects that the driver follows within WINDOW seconds
LIMIT = 5
WINDOW = 60.0
#: schemes of a redirect without TLS, and with TLS
_PLAIN, _TLS = ("amqp", "ws", "http"), ("amqps", "wss", "https")


@dataclass(frozen=True, slots=True)
class Redirect:
    """The fields of a redirect error's info map; a field that is missing there is None.

    :param hostname: hostname of the container, for the Open frame, SASL and TLS
    :param network_host: name or IP address to connect to
    :param address: address of the node at that container (links only)
    :param scheme: an extension that some brokers send: ``amqp``, ``amqps``, ``ws``, ``wss``
    """

    hostname: str | None = None
    network_host: str | None = None
    port: int | None = None
    address: str | None = None
    scheme: str | None = None

    @classmethod
    def parse(cls, info: Any) -> "Redirect":
        """Return the redirect that an info map describes; never raise, whatever the map holds."""
        given = (
            {_text(key): value for key, value in info.items()} if isinstance(info, Mapping) else {}
        )
        port = given.get("port")
        return cls(
            hostname=_text(given.get("hostname")),
            network_host=_text(given.get("network-host")),
            port=int(port) if isinstance(port, int) and 0 < port < 65536 else None,
            address=_text(given.get("address")),
            scheme=_text(given.get("scheme")),
        )

    def elsewhere(self, host: Host) -> bool:
        """Return whether the redirect leads to another host than ``host``, the present one."""
        return self.target(host) != host

    def target(self, host: Host) -> Host:
        """Return the host that the redirect names.

        :param host: the present host, which gives missing fields and the credentials.
        """
        network = self.network_host or (host.network if self.hostname is None else None)
        hostname = self.hostname or self.network_host or host.hostname
        if network == hostname:
            network = None
        return replace(host, hostname=hostname, port=self.port or host.port, network=network)

    def refusal(self, tls: bool) -> str | None:
        """Return why the scheme forbids following the redirect; None: it does not.

        :param tls: whether our connections use TLS, which the driver never gives up
        """
        scheme = (self.scheme or "").lower()
        if tls and scheme in _PLAIN:
            return f"it leads away from TLS (scheme {scheme})"
        if not tls and scheme in _TLS:
            return f"it wants TLS (scheme {scheme}), which is not configured"
        if scheme and scheme not in _PLAIN + _TLS:
            return f"its scheme {scheme} is unknown"
        return None


class Destinations:
    """The hosts to which a bus may redirect. Immutable, for any thread.

    Any bus can name any host in a redirect. The credentials of the transport URL belong to the
    hosts of that URL, so by default the driver follows redirects only to these.

    :param hosts: hosts of the transport URL
    :param patterns: further hosts, each as ``name`` or ``name:port``, with ``*`` and ``?`` as
        wildcards (option ``redirect_hosts``)
    :param tls: whether connections use TLS
    """

    def __init__(self, hosts: Sequence[Host], patterns: Sequence[str], tls: bool) -> None:
        self._hosts = {_place(host.hostname, host.port): host for host in hosts}
        self._patterns = tuple(pattern.lower() for pattern in patterns)
        self._tls = tls

    def admit(self, target: Host) -> Host | None:
        """Return the target with the credentials to use there; None: do not connect to it.

        TLS checks the certificate against the hostname, so any network host is allowed. Without
        TLS nothing proves the hostname: the network host has to be a permitted one, too.
        """
        names = [target.hostname]
        if target.network is not None and not self._tls:
            names.append(target.network)
        known = [self._hosts.get(_place(name, target.port)) for name in names]
        if all(known):
            own = known[0]
            assert own is not None
            return replace(target, username=own.username, password=own.password, foreign=False)
        if all(
            host or self._matches(name, target.port)
            for name, host in zip(names, known, strict=True)
        ):
            return replace(target, foreign=True)
        return None

    def _matches(self, name: str, port: int) -> bool:
        place = _place(name, port)
        return any(
            fnmatchcase(name.lower(), pattern) or fnmatchcase(place, pattern)
            for pattern in self._patterns
        )


class Trail:
    """The redirects followed recently, which the driver limits. One thread at a time."""

    def __init__(self) -> None:
        self._steps: list[tuple[float, str]] = []

    def step(self, source: str, target: str, now: float) -> str | None:
        """Record a redirect, unless there were too many before it or it leads back.

        :param source: the redirecting host or address
        :param target: the host or address to go to
        :param now: monotonic seconds
        :returns: why the driver must not follow the redirect; None: it may
        """
        self._steps = [step for step in self._steps if now - step[0] < WINDOW]
        if target == source or any(target == before for _, before in self._steps):
            return "it leads in a circle"
        if len(self._steps) >= LIMIT:
            return f"there were {LIMIT} within {WINDOW:g} s already"
        self._steps.append((now, source))
        return None


def _place(name: str, port: int) -> str:
    return f"{name.lower()}:{port}"


def _text(value: Any) -> str | None:
    if isinstance(value, (bytes, memoryview)):
        value = bytes(value).decode("utf-8", "replace")
    return str(value) if isinstance(value, str) and value else None
