# SPDX-License-Identifier: Apache-2.0

"""The shared objects of one logical connection, and those of one physical connection."""

from dataclasses import dataclass

from amqp1_driver.addressing.base import AddressConfig
from amqp1_driver.addressing.profiles import BusProfile
from amqp1_driver.connection.network import Network
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sessions import Sessions
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.provisioning.base import Provisioner


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The objects that all physical connections of one logical connection share.

    :param network: clock, timers and tokens
    :param settings: values of the options
    :param addresses: settings from which addresses are formed
    :param unique: makes the reply address of this process and fork unique on the bus
    :param retry: schedule of the waits between attempts to attach a link
    :param outbox: the messages that are not sent yet
    """

    network: Network
    settings: Settings
    addresses: AddressConfig
    unique: str
    retry: Retry
    outbox: Outbox


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
