# SPDX-License-Identifier: Apache-2.0


"""Options: WebSocket and proxy between the driver and the bus."""

import dataclasses
from urllib.parse import unquote, urlsplit

from oslo_config import cfg

from amqp1_driver.options.kinds import text

WEBSOCKET_PORT = 443
#: used for an empty option; as its default the dollar would begin a reference to another option
WEBSOCKET_PATH = "/$servicebus/websocket"


OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "transport",
        default="auto",
        help="What carries AMQP.",
        choices=[
            ("auto", "WebSocket to hosts whose port is 443, otherwise TCP"),
            ("tcp", "TCP, with TLS by the other options"),
            ("websocket", "WebSocket, always over TLS; the port is 443 unless one is given"),
        ],
    ),
    text(
        "websocket_path",
        "",
        "Path in the request for a WebSocket; that of Azure Service Bus, "
        "/$servicebus/websocket, unless one is given.",
    ),
    text(
        "proxy",
        "",
        "HTTP proxy to connect through, by its method CONNECT: "
        "http://HOST:PORT or http://USER:PASSWORD@HOST:PORT. It looks up the name of the bus. "
        "The variables HTTPS_PROXY and ALL_PROXY of the environment are not looked at.",
        secret=True,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunnelSettings:
    """Checked values of these options."""

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
