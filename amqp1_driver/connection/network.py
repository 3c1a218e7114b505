# SPDX-License-Identifier: Apache-2.0

"""The interface through which a connection gets sockets, engines and tokens; on the I/O thread."""

from typing import Any, Protocol

from amqp1_driver.engine.connection import Engine
from amqp1_driver.interfaces import TokenSource, WallClockScheduler
from amqp1_driver.options import Host


class Network(WallClockScheduler, Protocol):
    """A scheduler that also makes sockets, engines and sources of tokens."""

    #: ``hostname`` for the next Open frame; None: the name of the host
    virtual_host: str | None

    def connect(self, host: Host) -> None:
        """Open a transport to a host."""
        ...

    def disconnect(self) -> None:
        """Close the transport, if there is one, and ignore its events from now on."""
        ...

    def token_source(self, host: Host) -> TokenSource | None:
        """Return the source of tokens for a host; None: SASL authenticates the driver."""
        ...

    def new_engine(self, host: Host, handler: Any) -> Engine:
        """Make an engine, and connect the open transport with it.

        :param handler: gets the events of the engine; see :class:`EngineHandler`
        :raises ConnectionFailed: the engine has no resources for SASL
        """
        ...
