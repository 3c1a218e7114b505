# SPDX-License-Identifier: Apache-2.0

"""Detection of the bus from its Open frame, and the profile that says how to treat it.

Pure, for any thread. The profiles come from observation of running buses (RabbitMQ 4.0 and 4.3,
qpidd 1.40, qpid-dispatch 1.19, skupper-router 3.4, Artemis 2.40, Broker-J 9.2). Capabilities alone
do not suffice: buses announce too little.
"""

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping

from amqp1_driver.addressing.artemis import ArtemisAddresser
from amqp1_driver.addressing.base import AddressConfig, Addresser, Entity, Node
from amqp1_driver.addressing.brokerj import BrokerJAddresser
from amqp1_driver.addressing.legacy import LegacyAddresser
from amqp1_driver.addressing.rabbitmq import RabbitmqAddresser, reply_node
from amqp1_driver.addressing.routable import RoutableAddresser
from amqp1_driver.addressing.servicebus import ServiceBusAddresser, split_reply
from amqp1_driver.exceptions import printable

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
RABBITMQ_VHOST_PREFIX = "vhost:"
#: WebSocket subprotocol of AMQP, by the OASIS binding
WEBSOCKET_SUBPROTOCOL = "amqp"
#: longest product name and version text that the driver keeps, in characters
_TEXT = 100
DEFAULT_MAX_SESSIONS = 65536  # sessions on a bus that is not known to allow fewer


class ReplyKind(enum.Enum):
    """The way in which the driver gets an address for replies.

    DYNAMIC: source with dynamic=true. VOLATILE: RabbitMQ's direct reply-to, without a queue.
    TEMPORARY: dynamic source with capability ``temporary-queue``. EXCLUSIVE: an exclusive
    queue that the driver declares. SESSION: one queue for all processes, in which each process
    has a session of its own.
    """

    DYNAMIC = "dynamic"
    VOLATILE = "volatile"
    TEMPORARY = "temporary"
    EXCLUSIVE = "exclusive"
    SESSION = "session"


class DeclareBy(enum.Enum):
    """The way in which the driver declares queues and exchanges, on a bus that needs it.

    RABBITMQ, QPID: by the management of the bus over AMQP. ATTACHING: the bus creates the node
    that a link asks for.
    """

    RABBITMQ = "rabbitmq"
    QPID = "qpid"
    ATTACHING = "attaching"


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """The identity that the peer announces (Open, AMQP 1.0 section 2.7.1).

    :param product: name of the product; empty when the peer does not announce it.
    :param version: numbers of the version, () when unknown.
    """

    product: str
    version: tuple[int, ...] = ()
    capabilities: frozenset[str] = frozenset()
    container: str = ""

    @classmethod
    def from_open(
        cls,
        properties: object,
        offered_capabilities: object,
        *,
        container: str | None = None,
    ) -> "Peer":
        """Return the peer that an Open frame describes; never raise, whatever the frame holds."""
        given = (
            {key: value for key, value in properties.items() if isinstance(key, str)}
            if isinstance(properties, Mapping)
            else {}
        )
        if isinstance(offered_capabilities, str):  # one symbol instead of an array
            offered_capabilities = (offered_capabilities,)
        elif not isinstance(offered_capabilities, Iterable):
            offered_capabilities = ()
        return cls(
            product=_text(given.get("product")),
            version=_version(_text(given.get("version"))),
            capabilities=frozenset(
                str(symbol) for symbol in offered_capabilities if isinstance(symbol, str)
            ),
            container=container or "",
        )

    def __str__(self) -> str:
        version = ".".join(map(str, self.version))
        return " ".join(filter(None, (self.product or "unknown AMQP peer", version)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BusProfile:
    """The behaviour of a bus, and how to treat it.

    :param name: name of the bus, for logs and errors.
    :param addressing: syntax of addresses: ``legacy``, ``routable``, ``rabbitmq``, ``artemis``,
        ``brokerj`` or ``servicebus``.
    :param anonymous: the driver sends all messages over one link to the anonymous terminus.
    :param anonymous_replies: the driver sends replies over that link, so that it needs no link
        per reply address.
    :param provision: the driver must declare queues and exchanges before it uses them.
    :param declares: the way to declare them, if ``provision``.
    :param needs_outcomes: a sender must list the needs_outcomes it understands; otherwise the peer
        detaches the link because of one message that it cannot deliver.
    :param session_per_receiver: an error of one link ends its whole session, so that each
        receiver needs a session of its own.
    :param released_in_doubt: RELEASED does not prove that no receiver had the message: RabbitMQ
        also releases messages that were in a queue, or with its reader, when somebody deleted
        the queue. The driver never resends such a message, whatever the options say; a call
        still waits for its reply.
    :param max_sessions: sessions per connection that the bus allows.
    :param pools: notification pools are possible.
    :param durable: the durable header makes a difference.
    :param vhost_prefix: prefix of the virtual host's name in the Open frame.
    :param stores: the bus owns a message that it has accepted; False: the outcome comes from the
        receiver.
    :param propagation_seconds: seconds until all routers of a mesh know of a new receiver; 0 for
        other buses.
    :param answers_echo: the bus answers a Flow frame that asks for an echo (peers with proton do
        not).
    :param window_per_frame: the bus checks the window of our session before each frame, not only
        before each message.
    :param predeclared: no client can declare anything: a missing node is an error, and not a node
        that may still appear.
    :param needs_tokens: the driver must put a token for each node before it opens links to the
        node, unless SASL has authenticated it.
    :param locks: the bus locks a message for a limited time once the message has left its queue,
        so that the driver may ask for no more messages than it will soon work on.
    :param expires: the driver honours the absolute-expiry-time of messages. On this bus the
        clocks of hosts are right, because tokens depend on them; on another bus a wrong clock
        would cost messages that the bus has accepted.
    :param marks_returned_as_failed: the bus redelivers a message without end unless the receiver
        that returns it marks it as failed (delivery-failed).
    :param one_session: all links are on one session as long as the session has room.
    :param subprotocol: name of AMQP in the request for a WebSocket.
    """

    name: str
    addressing: str = "legacy"
    anonymous: bool = False
    anonymous_replies: bool = True
    reply: ReplyKind = ReplyKind.DYNAMIC
    provision: bool = False
    declares: DeclareBy = DeclareBy.RABBITMQ
    needs_outcomes: bool = False
    session_per_receiver: bool = False
    released_in_doubt: bool = False
    max_sessions: int = DEFAULT_MAX_SESSIONS
    pools: bool = False
    durable: bool = False
    stores: bool = True
    propagation_seconds: float = 0.0
    predeclared: bool = False
    needs_tokens: bool = False
    locks: bool = False
    marks_returned_as_failed: bool = False
    expires: bool = False
    one_session: bool = False
    subprotocol: str = WEBSOCKET_SUBPROTOCOL
    answers_echo: bool = False
    window_per_frame: bool = True
    vhost_prefix: str = ""


def _router(name: str, *, propagation_seconds: float) -> BusProfile:
    return BusProfile(
        name=name, addressing="routable", stores=False, propagation_seconds=propagation_seconds
    )


def _rabbitmq(reply: ReplyKind, *, session_per_receiver: bool) -> BusProfile:
    # Anonymous: RabbitMQ releases a message to a queue that does not exist. It would refuse a
    # link to that queue, and up to 4.2 it would end the link's session too.
    return BusProfile(
        name="RabbitMQ",
        addressing="rabbitmq",
        anonymous=True,
        reply=reply,
        provision=True,
        session_per_receiver=session_per_receiver,
        released_in_doubt=True,
        max_sessions=64,
        pools=True,
        durable=True,
        vhost_prefix=RABBITMQ_VHOST_PREFIX,
        answers_echo=True,
    )


# Service Bus does not announce a product in its Open frame, and needs TLS and tokens before it.
SERVICE_BUS = BusProfile(
    name="Azure Service Bus",
    addressing="servicebus",
    anonymous_replies=False,
    reply=ReplyKind.SESSION,
    pools=True,
    predeclared=True,
    needs_tokens=True,
    locks=True,
    marks_returned_as_failed=True,
    expires=True,
    one_session=True,
    subprotocol="AMQPWSB10",
)


# Product (lower case) -> profiles by lowest version, the newest first. The last profile also
# serves a peer that does not announce its version.
_PROFILES: dict[str, tuple[tuple[tuple[int, ...], BusProfile], ...]] = {
    # Routers get a link per address: by its credit a router shows whether a receiver is there.
    "qpid-dispatch-router": (((), _router("qpid-dispatch", propagation_seconds=1.0)),),
    "skupper-router": (((), _router("skupper-router", propagation_seconds=1.0)),),
    "amqp1-bus-router": (((), _router("embedded router", propagation_seconds=0.0)),),
    "amqp1-bus-broker": (((), BusProfile(name="embedded broker", pools=True)),),
    # qpidd accepts and drops a message that goes to an unknown node by the anonymous terminus.
    # That is right for replies whose caller has gone, and wrong for everything else.
    "qpid-cpp": (((), BusProfile(name="qpidd", durable=True)),),
    # Artemis computes the credit of an anonymous link from the address that was used last, so
    # that each address needs a link of its own.
    "apache-activemq-artemis": (
        (
            (),
            BusProfile(
                name="ActiveMQ Artemis",
                addressing="artemis",
                provision=True,
                declares=DeclareBy.ATTACHING,
                pools=True,
                durable=True,
            ),
        ),
    ),
    "apache qpid broker-j core": (
        (
            (),
            BusProfile(
                name="Qpid Broker-J",
                addressing="brokerj",
                provision=True,
                declares=DeclareBy.QPID,
                needs_outcomes=True,
                window_per_frame=False,
                max_sessions=256,
                pools=True,
                durable=True,
            ),
        ),
    ),
    "rabbitmq": (
        ((4, 3), _rabbitmq(ReplyKind.VOLATILE, session_per_receiver=False)),
        ((4, 2), _rabbitmq(ReplyKind.VOLATILE, session_per_receiver=True)),
        ((4, 1), _rabbitmq(ReplyKind.TEMPORARY, session_per_receiver=True)),
        ((), _rabbitmq(ReplyKind.EXCLUSIVE, session_per_receiver=True)),
    ),
}


def profile_for(peer: Peer, mode: str = "dynamic") -> BusProfile:
    """Return the profile for a peer.

    :param mode: option ``addressing_mode``; any value but ``dynamic`` forces the syntax of
        addresses and nothing else, except ``servicebus``, which selects the whole profile.
    """
    forced = forced_profile(mode)
    if forced is not None:
        return forced
    # An unknown bus: do as the driver inside of oslo.messaging does, which may share the bus.
    profile = _known(peer) or BusProfile(name=str(peer), addressing="routable", durable=True)
    relay = ANONYMOUS_RELAY in peer.capabilities
    profile = dataclasses.replace(
        profile,
        anonymous=profile.anonymous and relay,
        anonymous_replies=profile.anonymous_replies and relay,
    )
    if mode in ("dynamic", profile.addressing):
        return profile
    # Pools need the syntax that is native to the bus.
    return dataclasses.replace(profile, addressing=mode, pools=False)


def forced_profile(mode: str) -> BusProfile | None:
    """Return the profile if the option alone determines it, before the peer's Open; else None."""
    return SERVICE_BUS if mode == SERVICE_BUS.addressing else None


def reply_source(
    profile: BusProfile, addresser: Addresser, unique: str, generation: int
) -> tuple[Node | None, str | None]:
    """Return the node to read replies from, and the session in it.

    :param unique: identifies the process and fork.
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
    if profile.reply is not ReplyKind.SESSION:
        return Node(address)
    entity, session = split_reply(address)
    return Node(entity, (Entity("queue", entity, sessions=session is not None),))


def raw_node(profile: BusProfile, address: str) -> Node:
    """Return the node with exactly this address; the node has to exist."""
    return Node(address, (Entity("queue", address),) if profile.needs_tokens else ())


def make_addresser(profile: BusProfile, config: AddressConfig) -> Addresser:
    """Return the addresser for a profile.

    :raises ValueError: the profile names an unknown syntax.
    """
    if profile.addressing == "legacy":
        return LegacyAddresser(config, profile.name, profile.pools)
    if profile.addressing == "routable":
        return RoutableAddresser(config, profile.name)
    if profile.addressing == "rabbitmq":
        return RabbitmqAddresser(config, profile.name, profile.pools)
    if profile.addressing == "artemis":
        return ArtemisAddresser(config, profile.name, profile.pools)
    if profile.addressing == "brokerj":
        return BrokerJAddresser(config, profile.name, profile.pools)
    if profile.addressing == "servicebus":
        return ServiceBusAddresser(config)
    raise ValueError(f"unknown syntax of addresses: {profile.addressing}")


def _known(peer: Peer) -> BusProfile | None:
    for lowest, profile in _PROFILES.get(peer.product.lower(), ()):
        if peer.version >= lowest:
            return profile
    return None


def _text(value: object) -> str:
    return printable(value, _TEXT) if isinstance(value, str) else ""


def _version(text: str) -> tuple[int, ...]:
    """Parse a version: ``4.3.6+2.g1`` is (4, 3, 6); () for a text without numbers."""
    found = re.search(r"\d+(?:\.\d+)*", text, re.ASCII)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
