# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which bus is at the other end, told from its Open frame, and how to treat it.

Pure. What each bus does was observed on running ones (RabbitMQ 4.0 and 4.3, qpidd 1.40,
qpid-dispatch 1.19, skupper-router 3.4, Artemis 2.40, Broker-J 9.2); it announces too little to
go by capabilities alone.
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

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
RABBITMQ_VHOST_PREFIX = "vhost:"
#: of AMQP over WebSocket, by the OASIS binding
WEBSOCKET_SUBPROTOCOL = "amqp"
_CHANNELS = 65536  # of a bus that is not known to allow fewer sessions


class ReplyKind(enum.Enum):
    """How an address for replies is had.

    DYNAMIC: source with dynamic=true. VOLATILE: RabbitMQ's direct reply-to, no queue at all.
    TEMPORARY: dynamic source with capability ``temporary-queue``. EXCLUSIVE: an exclusive
    queue that the driver declares. SESSION: one queue for all, in which each process has a
    session of its own.
    """

    DYNAMIC = "dynamic"
    VOLATILE = "volatile"
    TEMPORARY = "temporary"
    EXCLUSIVE = "exclusive"
    SESSION = "session"


class DeclareBy(enum.Enum):
    """How queues and exchanges are declared, where that has to be.

    RABBITMQ, QPID: by the management of the bus over AMQP. ATTACHING: the bus creates what a
    link asks for.
    """

    RABBITMQ = "rabbitmq"
    QPID = "qpid"
    ATTACHING = "attaching"


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """Who the peer says it is (Open, AMQP 1.0 section 2.7.1).

    :param product: empty when the peer does not say.
    :param version: numbers of its version, () when unknown.
    :param max_frame: its max-frame-size in bytes, None when unknown.
    """

    product: str
    version: tuple[int, ...] = ()
    capabilities: frozenset[str] = frozenset()
    max_frame: int | None = None
    container: str = ""

    @classmethod
    def from_open(
        cls,
        properties: Mapping[object, object] | None,
        offered_capabilities: Iterable[object] | str | None,
        *,
        max_frame: int | None = None,
        container: str | None = None,
    ) -> "Peer":
        """Never raises, whatever the peer has sent."""
        given = {str(key): value for key, value in (properties or {}).items()}
        if offered_capabilities is None:
            offered_capabilities = ()
        elif isinstance(offered_capabilities, str):  # one symbol instead of an array
            offered_capabilities = (offered_capabilities,)
        return cls(
            product=_text(given.get("product")),
            version=_version(_text(given.get("version"))),
            capabilities=frozenset(str(symbol) for symbol in offered_capabilities),
            max_frame=max_frame,
            container=container or "",
        )

    def __str__(self) -> str:
        version = ".".join(map(str, self.version))
        return " ".join(filter(None, (self.product or "unknown AMQP peer", version)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BusProfile:
    """How to treat a bus.

    :param addressing: ``legacy``, ``routable``, ``rabbitmq``, ``artemis``, ``brokerj`` or
        ``servicebus``.
    :param anonymous: all sends go over one link to the anonymous terminus.
    :param anonymous_replies: replies do, so that no link per reply address is needed.
    :param provision: queues and exchanges have to be declared before use.
    :param declares: how, if so.
    :param outcomes: a sender has to say which outcomes it understands; else the peer detaches
        the link for one message that it can't deliver.
    :param session_per_receiver: an error of one link ends its whole session.
    :param own_links: links to single queues can be tried too: one that is refused harms no other.
    :param redeclare: RELEASED says that the message is in no queue: declaring the node and
        sending it once more can't make two of it.
    :param max_sessions: sessions per connection that the bus allows.
    :param pools: notification pools are possible.
    :param durable: the durable header makes a difference.
    :param vhost_prefix: what a virtual host's name has in front in the Open frame.
    :param stores: it owns what it has accepted; if not, the outcome is the receiver's.
    :param news: seconds until all of it has heard of a new reader, where it is a mesh.
    :param echoes: it answers a Flow frame that asks for an echo (proton's peers do not).
    :param keeps_window: it looks at our session's window before each frame, not only before each
        message.
    :param premade: nobody can declare anything: what is missing is an error, not yet to come.
    :param claims: a token must be put for each node before links to it are opened, unless
        SASL has told who we are.
    :param locks: a message is locked for a time once it has left its queue, so that no more may
        be asked for than are worked on soon.
    :param abandons: what is handed back comes again without end unless it is said to have failed.
    :param one_session: all links are on one session as long as it has room.
    :param subprotocol: name of AMQP in the request for a WebSocket.
    """

    name: str
    addressing: str = "legacy"
    anonymous: bool = False
    anonymous_replies: bool = True
    reply: ReplyKind = ReplyKind.DYNAMIC
    provision: bool = False
    declares: DeclareBy = DeclareBy.RABBITMQ
    outcomes: bool = False
    session_per_receiver: bool = False
    own_links: bool = False
    redeclare: bool = False
    max_sessions: int = _CHANNELS
    pools: bool = False
    durable: bool = False
    stores: bool = True
    news: float = 0.0
    premade: bool = False
    claims: bool = False
    locks: bool = False
    abandons: bool = False
    one_session: bool = False
    subprotocol: str = WEBSOCKET_SUBPROTOCOL
    echoes: bool = False
    keeps_window: bool = True
    vhost_prefix: str = ""


def _router(name: str, *, news: float) -> BusProfile:
    return BusProfile(name=name, addressing="routable", stores=False, news=news)


def _rabbitmq(reply: ReplyKind, *, session_per_receiver: bool) -> BusProfile:
    # Anonymous: what is sent to a queue that does not exist comes back RELEASED, where a link
    # of its own could not be attached (and up to 4.2 would take its session down).
    return BusProfile(
        name="RabbitMQ",
        addressing="rabbitmq",
        anonymous=True,
        reply=reply,
        provision=True,
        session_per_receiver=session_per_receiver,
        own_links=not session_per_receiver,
        redeclare=True,
        max_sessions=64,
        pools=True,
        durable=True,
        vhost_prefix=RABBITMQ_VHOST_PREFIX,
        echoes=True,
    )


# It says nothing of itself when it connects, and wants TLS and tokens before that.
SERVICE_BUS = BusProfile(
    name="Azure Service Bus",
    addressing="servicebus",
    anonymous_replies=False,
    reply=ReplyKind.SESSION,
    pools=True,
    premade=True,
    claims=True,
    locks=True,
    abandons=True,
    one_session=True,
    subprotocol="AMQPWSB10",
)


# Product (lower case) -> profiles by lowest version, the newest first. The last one also
# serves a peer that does not tell its version.
_PROFILES: dict[str, tuple[tuple[tuple[int, ...], BusProfile], ...]] = {
    # Routers have named links: by its credit a router says whether anyone is there.
    "qpid-dispatch-router": (((), _router("qpid-dispatch", news=1.0)),),
    "skupper-router": (((), _router("skupper-router", news=1.0)),),
    "amqp1-bus-router": (((), _router("embedded router", news=0.0)),),
    "amqp1-bus-broker": (((), BusProfile(name="embedded broker", pools=True)),),
    # qpidd accepts and drops what goes to an unknown node by the anonymous terminus: right
    # for replies that nobody waits for any more, wrong for everything else.
    "qpid-cpp": (((), BusProfile(name="qpidd", durable=True)),),
    # It reckons the credit of a common link by the address that was used last: each has its own.
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
                outcomes=True,
                keeps_window=False,
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


def choose(peer: Peer, mode: str = "dynamic") -> BusProfile:
    """The profile for a peer.

    :param mode: option ``addressing_mode``; anything but ``dynamic`` forces the syntax of
        addresses and nothing else, except ``servicebus``, which says all.
    """
    told = foretold(mode)
    if told is not None:
        return told
    profile = _known(peer) or BusProfile(name=str(peer), durable=True)
    relay = ANONYMOUS_RELAY in peer.capabilities
    profile = dataclasses.replace(
        profile,
        anonymous=profile.anonymous and relay,
        anonymous_replies=profile.anonymous_replies and relay,
    )
    if mode in ("dynamic", profile.addressing):
        return profile
    # Pools are made by the syntax that is native to the bus.
    return dataclasses.replace(profile, addressing=mode, pools=False)


def foretold(mode: str) -> BusProfile | None:
    """The profile, if it is known before the peer has opened."""
    return SERVICE_BUS if mode == SERVICE_BUS.addressing else None


def reply_source(
    profile: BusProfile, addresser: Addresser, unique: str, generation: int
) -> tuple[Node | None, str | None]:
    """The node to read replies from, and the session in it; None where the bus assigns one.

    :param unique: of the process and fork.
    :param generation: which connection of the process this is.
    """
    if profile.reply is ReplyKind.EXCLUSIVE:
        return reply_node(unique), None
    if isinstance(addresser, ServiceBusAddresser):
        return addresser.reply(f"{unique}-{generation}")
    return None, None


def reply_target(profile: BusProfile, address: str) -> Node:
    """Where to send a reply to; ``address`` is what the caller gave."""
    if profile.reply is not ReplyKind.SESSION:
        return Node(address)
    entity, session = split_reply(address)
    return Node(entity, (Entity("queue", entity, sessions=session is not None),))


def raw_node(profile: BusProfile, address: str) -> Node:
    """A node by its own address: that is not touched, and the node has to be there."""
    return Node(address, (Entity("queue", address),) if profile.claims else ())


def make_addresser(profile: BusProfile, config: AddressConfig) -> Addresser:
    """The addresser for a profile.

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
    return str(value) if isinstance(value, str) else ""


def _version(text: str) -> tuple[int, ...]:
    """``4.3.6+2.g1`` is (4, 3, 6); () for a text without numbers."""
    found = re.search(r"\d+(?:\.\d+)*", text, re.ASCII)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
