# SPDX-License-Identifier: Apache-2.0

"""The shared objects of one logical connection, and those of one physical connection.

One of them is the :class:`Network`, the interface through which a connection gets sockets, engines
and tokens. All live on the I/O thread.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from amqp1_driver.addressing.base import AddressConfig
from amqp1_driver.addressing.profiles import BusProfile
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sessions import Sessions
from amqp1_driver.interfaces import TokenSource, WallClockScheduler
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.provisioning.base import Provisioner


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


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The objects that all physical connections of one logical connection share.

    :param network: clock, timers and tokens
    :param settings: values of the options
    :param addresses: settings from which addresses are formed
    :param unique: makes the reply address of this process and fork unique on the bus
    :param retry: schedule of the waits between attempts to attach a link
    """

    network: Network
    settings: Settings
    addresses: AddressConfig
    unique: str
    retry: Retry


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The objects that all links of one physical connection share.

    :param shared: the objects that outlive the physical connection
    :param host: ``hostname:port``, for logs and errors
    :param profile: the behaviour of the bus
    :param engine: the physical connection
    :param sessions: chooses the session of a link
    :param provisioner: makes nodes usable before links to them are opened; None: the bus needs
        no provisioning
    """

    shared: ConnectionContext
    host: str
    profile: BusProfile
    engine: Engine
    sessions: Sessions
    provisioner: Provisioner | None
