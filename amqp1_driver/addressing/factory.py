# SPDX-License-Identifier: Apache-2.0

"""Functions that make the addresser of a profile, and the nodes of replies and raw addresses.

Pure, for any thread.
"""

from amqp1_driver.addressing.artemis import ArtemisAddresser
from amqp1_driver.addressing.base import AddressConfig, Addresser, Entity, Node
from amqp1_driver.addressing.brokerj import BrokerJAddresser
from amqp1_driver.addressing.legacy import LegacyAddresser
from amqp1_driver.addressing.profiles import BusProfile, ReplyKind
from amqp1_driver.addressing.rabbitmq import RabbitmqAddresser, reply_node
from amqp1_driver.addressing.routable import RoutableAddresser
from amqp1_driver.addressing.servicebus import ServiceBusAddresser, split_reply

_ADDRESSERS: dict[str, type[Addresser]] = {
    "routable": RoutableAddresser,
    "legacy": LegacyAddresser,
    "rabbitmq": RabbitmqAddresser,
    "artemis": ArtemisAddresser,
    "brokerj": BrokerJAddresser,
    "servicebus": ServiceBusAddresser,
}


def make_addresser(profile: BusProfile, config: AddressConfig) -> Addresser:
    """Return the addresser for a profile.

    :raises ValueError: the profile names an unknown syntax.
    """
    kind = _ADDRESSERS.get(profile.addressing)
    if kind is None:
        raise ValueError(f"unknown syntax of addresses: {profile.addressing}")
    return kind(config, profile.name, profile.pools)


def reply_source(
    profile: BusProfile, addresser: Addresser, unique: str, generation: int
) -> tuple[Node | None, str | None]:
    """Return the node to read replies from, and the session in it.

    :param unique: text that identifies the process and fork.
    :param generation: number of this connection within the process.
    :returns: the node, None if the bus assigns it; the session, None if the node has none.
    """
    if profile.reply is ReplyKind.EXCLUSIVE:
        return reply_node(unique), None
    if isinstance(addresser, ServiceBusAddresser):
        return addresser.reply(f"{unique}-{generation}")
    return None, None


def reply_target(profile: BusProfile, address: str) -> Node:
    """Return the node to send a reply to; ``address`` is the caller's reply address."""
    if not profile.reply.in_session:
        return Node(address)
    entity, session = split_reply(address)
    return Node(entity, (Entity("queue", entity, sessions=session is not None),))


def raw_node(profile: BusProfile, address: str) -> Node:
    """Return the node with exactly this address; the node has to exist."""
    return Node(address, (Entity("queue", address),) if profile.needs_tokens else ())
