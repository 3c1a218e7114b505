# SPDX-License-Identifier: Apache-2.0


"""Options: WebSocket and proxy between the driver and the bus."""

import dataclasses
from urllib.parse import unquote, urlsplit

from oslo_config import cfg

from amqp1_driver.options.kinds import text

WEBSOCKET_PORT = 443
#: path if the option is empty. It is not the option's default: oslo.config would take the dollar
#: for the beginning of a reference to another option
WEBSOCKET_PATH = "/$servicebus/websocket"


OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "transport",
        default="auto",
        help="Protocol that carries AMQP.",
        choices=[
            ("auto", "WebSocket to hosts whose port is 443, otherwise TCP"),
            ("tcp", "TCP, with TLS if the options for TLS ask for it"),
            ("websocket", "WebSocket, always over TLS; the default port is 443"),
        ],
    ),
    text(
        "websocket_path",
        "",
        "Path in the request for a WebSocket. Empty: that of Azure Service Bus, "
        "/$servicebus/websocket.",
    ),
    text(
        "proxy",
        "",
        "HTTP proxy to connect through, with the method CONNECT: http://HOST:PORT or "
        "http://USER:PASSWORD@HOST:PORT. The proxy resolves the name of the bus. The "
        "driver ignores the environment variables HTTPS_PROXY and ALL_PROXY.",
        secret=True,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunnelSettings:
    """The checked values of the options in this module."""

    transport: str
    websocket_path: str
    proxy: str = dataclasses.field(repr=False)

    def websocket(self, port: int) -> bool:
        """Return whether to connect to a host's port by WebSocket."""
        return self.transport == "websocket" or (
            self.transport == "auto" and port == WEBSOCKET_PORT
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy. ``str()`` is ``hostname:port``, without credentials."""

    hostname: str
    port: int
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{name}:{self.port}"


def proxy(url: str) -> Proxy | None:
    """Parse option ``proxy``.

    :returns: None if the option is empty
    :raises ValueError: the option can't be parsed; the text shows no password
    """
    if not url:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or not port or parts.path.strip("/"):
        raise ValueError("a proxy is given as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")
    username = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    return Proxy(parts.hostname, port, username, password)
