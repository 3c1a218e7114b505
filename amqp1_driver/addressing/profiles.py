# SPDX-License-Identifier: Apache-2.0

"""The profiles of buses: how each bus behaves, and how the driver treats it.  Pure, for any thread.

A profile consists of small strategies.  A link or a connection takes its strategy from the profile
when it is made.  Each bus has one paragraph below.  It holds all that the driver does because of
that bus, except the syntax of addresses (the addresser of that name in this folder) and the
requests for queues (the module of that name in ``provisioning``).

The profiles come from observation of running buses (RabbitMQ 4.0 and 4.3, qpidd 1.40, qpid-dispatch
1.19, skupper-router 3.4, Artemis 2.40, Broker-J 9.2).
"""

import enum
from dataclasses import dataclass

from amqp1_driver.policy.outcome import Outcome

RABBITMQ_VHOST_PREFIX = "vhost:"
#: WebSocket subprotocol of AMQP, by the OASIS binding
WEBSOCKET_SUBPROTOCOL = "amqp"
DEFAULT_MAX_SESSIONS = 65536  # sessions on a bus that is not known to allow fewer


class Relay(enum.Enum):
    """The messages that the driver sends over one link to the anonymous terminus.

    NOTHING: each address has a link of its own. REPLIES: replies, so that the driver needs no link
    per reply address. EVERYTHING: requests too.

    :ivar replies: replies go over that link
    :ivar requests: requests go over that link
    """

    NOTHING = "nothing"
    REPLIES = "replies"
    EVERYTHING = "everything"

    def __init__(self, messages: str) -> None:
        self.replies = messages != "nothing"
        self.requests = messages == "everything"


class ReplyKind(enum.Enum):
    """The way in which the driver gets an address for replies.

    DYNAMIC: source with dynamic=true. VOLATILE: RabbitMQ's direct reply-to, without a queue.
    TEMPORARY: dynamic source with capability ``temporary-queue``. EXCLUSIVE: an exclusive
    queue that the driver declares. SESSION: one queue for all processes, in which each process
    has a session of its own.

    :ivar capability: capability that the source of the reply link must have; None: none
    :ivar volatile: replies come settled, and the bus drops those for which there is no credit
    :ivar in_session: a reply address names a queue and a session
    """

    DYNAMIC = "dynamic"
    VOLATILE = "volatile"
    TEMPORARY = "temporary"
    EXCLUSIVE = "exclusive"
    SESSION = "session"

    def __init__(self, kind: str) -> None:
        self.capability = {
            "volatile": "rabbitmq:volatile-queue",
            "temporary": "temporary-queue",
        }.get(kind)
        self.volatile = kind == "volatile"
        self.in_session = kind == "session"


class Provision(enum.Enum):
    """The work of the driver before it opens links to a node.

    NOTHING: the bus makes nodes itself. RABBITMQ, QPID: the driver declares queues and bindings by
    the management of the bus over AMQP. ATTACHING: the bus creates the queue that a link asks for.
    TOKENS: the driver puts a token, unless SASL has authenticated it. On such a bus no client can
    declare anything, so a missing node is an error: the driver does not wait for it to appear.
    """

    NOTHING = "nothing"
    RABBITMQ = "rabbitmq"
    QPID = "qpid"
    ATTACHING = "attaching"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Settlement:
    """The source of a message's outcome: a broker that stores it, or the receiver behind a router.

    :param by_receiver: the bus is a router, which grants credit only while there is a receiver
    :param propagation_seconds: seconds until all routers of a mesh know of a new receiver
    """

    by_receiver: bool = False
    propagation_seconds: float = 0.0

    @property
    def late_reply(self) -> Outcome:
        """Return the outcome for a reply whose caller has gone.

        A broker has accepted the reply from the server. Given any other outcome, it would
        keep the reply, defer it or deliver it again. A router passes the outcome to the server.
        """
        return Outcome.UNDELIVERABLE if self.by_receiver else Outcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """The treatment of a sent message whose outcome is RELEASED.

    :param may_resend: the sender may send it again if the option ``resend_released`` allows that
    :param calls_wait: a call goes on waiting for its reply until its deadline, and does not fail
    """

    may_resend: bool
    calls_wait: bool


#: RELEASED proves that no receiver had the message
UNREAD = ReleasePolicy(may_resend=True, calls_wait=False)
#: RELEASED proves nothing: somebody may have read the message
POSSIBLY_READ = ReleasePolicy(may_resend=False, calls_wait=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivePolicy:
    """How receiving links treat their messages and their credit.

    :param answers_echo: the bus answers a Flow frame that asks for an echo (peers with proton do
        not); otherwise the driver asks the bus to drain
    :param returned: outcome of a message that the application returns to the bus (3.4.4, 3.4.5)
    :param locks: the bus locks a message for a limited time once the message has left its queue,
        so that the driver may ask for no more messages than it will soon work on
    :param expires: the driver honours the absolute-expiry-time of messages, because the clocks of
        hosts are right; otherwise a wrong clock would cost messages that the bus has accepted
    """

    answers_echo: bool = False
    returned: Outcome = Outcome.RELEASED
    locks: bool = False
    expires: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """How links share the sessions of a connection.

    :param per_receiver: an error of one link ends its whole session, so that each receiver needs a
        session of its own
    :param limit: sessions per connection that the bus allows
    :param one: all links are on one session as long as the session has room
    """

    per_receiver: bool = False
    limit: int = DEFAULT_MAX_SESSIONS
    one: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BusProfile:
    """The behaviour of a bus, and how the driver treats it.

    :param name: name of the bus, for logs and errors
    :param addressing: syntax of addresses: ``legacy``, ``routable``, ``rabbitmq``, ``artemis``,
        ``brokerj`` or ``servicebus``
    :param pools: notification pools are possible
    :param durable: the durable header makes a difference
    :param needs_outcomes: a sender must list the outcomes it understands; otherwise the peer
        detaches the link because of one message that it cannot deliver
    :param window_per_frame: the bus checks the window of our session before each frame, not only
        before each message
    :param vhost_prefix: prefix of the virtual host's name in the Open frame
    :param subprotocol: WebSocket subprotocol that the driver asks for
    """

    name: str
    addressing: str = "legacy"
    relay: Relay = Relay.REPLIES
    reply: ReplyKind = ReplyKind.DYNAMIC
    provision: Provision = Provision.NOTHING
    settlement: Settlement = Settlement()
    releases: ReleasePolicy = UNREAD
    receiving: ReceivePolicy = ReceivePolicy()
    sessions: SessionPlan = SessionPlan()
    pools: bool = False
    durable: bool = False
    needs_outcomes: bool = False
    window_per_frame: bool = True
    vhost_prefix: str = ""
    subprotocol: str = WEBSOCKET_SUBPROTOCOL

    @property
    def needs_tokens(self) -> bool:
        """Return whether the driver must put a token for each node, unless SASL identifies it."""
        return self.provision is Provision.TOKENS


# -- the buses -------------------------------------------------------------------


def _router(name: str, *, propagation_seconds: float) -> BusProfile:
    """Return the profile of a router.

    Each address gets a link of its own: the credit of that link shows whether a receiver is there.
    """
    return BusProfile(
        name=name,
        addressing="routable",
        settlement=Settlement(by_receiver=True, propagation_seconds=propagation_seconds),
    )


def _rabbitmq(reply: ReplyKind, *, session_per_receiver: bool) -> BusProfile:
    """Return the profile of RabbitMQ, which differs by version.

    :param reply: kind of reply address: RabbitMQ has VOLATILE since 4.2, TEMPORARY since 4.1
    :param session_per_receiver: up to 4.2 RabbitMQ ends the session of a link that it refuses
    """
    return BusProfile(
        name="RabbitMQ",
        addressing="rabbitmq",
        # RabbitMQ releases a message to a queue that does not exist. It would refuse a link to
        # that queue, and up to 4.2 it would end the link's session too.
        relay=Relay.EVERYTHING,
        reply=reply,
        provision=Provision.RABBITMQ,
        # RabbitMQ also releases messages that were in a queue, or with its reader, when somebody
        # deletes the queue.
        releases=POSSIBLY_READ,
        receiving=ReceivePolicy(answers_echo=True),
        sessions=SessionPlan(per_receiver=session_per_receiver, limit=64),
        pools=True,
        durable=True,
        vhost_prefix=RABBITMQ_VHOST_PREFIX,
    )


# Service Bus announces no product in its Open frame, and needs TLS and tokens before that frame.
SERVICE_BUS = BusProfile(
    name="Azure Service Bus",
    addressing="servicebus",
    relay=Relay.NOTHING,
    reply=ReplyKind.SESSION,
    provision=Provision.TOKENS,
    receiving=ReceivePolicy(
        # Service Bus redelivers a message without end unless the receiver marks it as failed.
        returned=Outcome.MODIFIED,
        locks=True,
        # The clocks of hosts are right here, because tokens depend on them.
        expires=True,
    ),
    sessions=SessionPlan(one=True),
    pools=True,
    subprotocol="AMQPWSB10",
)

# Artemis computes the credit of an anonymous link from the address that was used last, so that each
# address needs a link of its own.
_ARTEMIS = BusProfile(
    name="ActiveMQ Artemis",
    addressing="artemis",
    provision=Provision.ATTACHING,
    pools=True,
    durable=True,
)

_BROKERJ = BusProfile(
    name="Qpid Broker-J",
    addressing="brokerj",
    provision=Provision.QPID,
    sessions=SessionPlan(limit=256),
    pools=True,
    durable=True,
    needs_outcomes=True,
    window_per_frame=False,
)

# qpidd accepts and drops a message that goes to an unknown node by the anonymous terminus. That is
# right for replies whose caller has gone, and wrong for everything else.
_QPIDD = BusProfile(name="qpidd", durable=True)


#: product (lower case) -> profiles by lowest version, the newest first; the last profile also
#: serves a peer that does not announce its version
PROFILES: dict[str, tuple[tuple[tuple[int, ...], BusProfile], ...]] = {
    "qpid-dispatch-router": (((), _router("qpid-dispatch", propagation_seconds=1.0)),),
    "skupper-router": (((), _router("skupper-router", propagation_seconds=1.0)),),
    "amqp1-bus-router": (((), _router("embedded router", propagation_seconds=0.0)),),
    "amqp1-bus-broker": (((), BusProfile(name="embedded broker", pools=True)),),
    "qpid-cpp": (((), _QPIDD),),
    "apache-activemq-artemis": (((), _ARTEMIS),),
    "apache qpid broker-j core": (((), _BROKERJ),),
    "rabbitmq": (
        ((4, 3), _rabbitmq(ReplyKind.VOLATILE, session_per_receiver=False)),
        ((4, 2), _rabbitmq(ReplyKind.VOLATILE, session_per_receiver=True)),
        ((4, 1), _rabbitmq(ReplyKind.TEMPORARY, session_per_receiver=True)),
        ((), _rabbitmq(ReplyKind.EXCLUSIVE, session_per_receiver=True)),
    ),
}
