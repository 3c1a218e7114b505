# SPDX-License-Identifier: Apache-2.0

"""A tunnel through an HTTP proxy (RFC 9110, method CONNECT), without sockets; loop thread."""

import base64
from dataclasses import dataclass, field
from typing import Any

from amqp1_driver.eventloop.errors import join_host_port


@dataclass(frozen=True, slots=True)
class ProxyParameters:
    """The address of an HTTP proxy, and the credentials for Basic authentication."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


class TunnelError(Exception):
    """The error of a proxy that does not let us through; the text says why."""


class Tunnel:
    """A tunnel through a proxy to a host. Lives on the loop thread.

    The owner sends ``request``, then calls feed() with the proxy's answer until ``established``.

    :param host: the host behind the proxy
    :param port: the port of that host
    """

    def __init__(self, proxy: ProxyParameters, host: str, port: int) -> None:
        import h11  # late: only users of a proxy install it, and the driver's start checks it

        self._proxy = proxy
        self._h11: Any = h11
        self._http = h11.Connection(h11.CLIENT)
        self.established = False
        target = join_host_port(host, port)
        headers = [("Host", target)]
        if proxy.username is not None:
            pair = f"{proxy.username}:{proxy.password or ''}".encode()
            headers.append(("Proxy-Authorization", "Basic " + base64.b64encode(pair).decode()))
        request = h11.Request(method="CONNECT", target=target, headers=headers)
        self.request: bytes = self._http.send(request) + self._http.send(h11.EndOfMessage())

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the proxy.

        :returns: the bytes that come from behind the proxy; may be empty
        :raises TunnelError: the proxy refuses, hangs up or speaks no HTTP
        """
        try:
            self._http.receive_data(data)
            while not self.established:
                event = self._http.next_event()
                if event is self._h11.NEED_DATA:
                    return b""
                self._on_event(event)
        except self._h11.RemoteProtocolError as error:
            raise TunnelError(f"proxy {self._proxy} speaks no HTTP: {error}") from error
        rest: bytes = self._http.trailing_data[0]
        return rest

    def feed_eof(self) -> TunnelError:
        """Return the error of a proxy that has hung up."""
        return TunnelError(f"proxy {self._proxy} closed the connection instead of answering")

    def _on_event(self, event: Any) -> None:
        if isinstance(event, self._h11.Response):
            status, reason = event.status_code, event.reason.decode("ascii", "replace")
            if not 200 <= status < 300:
                raise TunnelError(f"proxy {self._proxy} refuses: HTTP {status} {reason}".rstrip())
            self.established = True
