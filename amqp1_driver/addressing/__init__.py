# SPDX-License-Identifier: Apache-2.0

"""Translation of oslo.messaging destinations into addresses of a bus. Pure, for any thread."""

from amqp1_driver.addressing.base import (
    AddressConfig,
    Addresser,
    Binding,
    Declaration,
    Destination,
    Entity,
    Exchange,
    Node,
    Queue,
    Service,
)
from amqp1_driver.addressing.factory import make_addresser
from amqp1_driver.addressing.peer import Peer, profile_for
from amqp1_driver.addressing.profiles import BusProfile, ReplyKind

__all__ = [
    "AddressConfig",
    "Addresser",
    "Binding",
    "BusProfile",
    "Declaration",
    "Destination",
    "Entity",
    "Exchange",
    "Node",
    "Peer",
    "Queue",
    "ReplyKind",
    "Service",
    "make_addresser",
    "profile_for",
]
