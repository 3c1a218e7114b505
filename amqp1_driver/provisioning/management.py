# SPDX-License-Identifier: Apache-2.0

"""The declaration of queues, exchanges and bindings by requests to the bus's management node.

This is RabbitMQ's management over AMQP 1.0.  Two links of one name form a pair with the address
``/management``.  Requests and responses are messages on the pair: subject = method or status,
to = path.  Every request that was sent has a deadline.  During an alarm RabbitMQ closes the
session's window: requests wait until it opens.  Lives on the I/O thread.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import quote

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Binding, Declaration, Exchange, Node, Queue
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineReceiver, EngineSender
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler, Timer
from amqp1_driver.policy.outcome import Disposition, Outcome

LOG = exceptions.logger(__name__)

ADDRESS = "/management"
NAME = "management-link-pair"
REPLY_TO = "$me"
_CREDIT = 100
_SUCCESS = ("200", "201", "204")

Done = Callable[[BaseException | None], None]


def request(declaration: Declaration) -> tuple[str, str, object]:
    """Return method, path and body of the request for a declaration."""
    if isinstance(declaration, Queue):
        return (
            "PUT",
            f"/queues/{quote(declaration.name, safe='')}",
            {
                "durable": declaration.durable,
                "exclusive": declaration.exclusive,
                "auto_delete": declaration.auto_delete,
                "arguments": dict(declaration.arguments),
            },
        )
    if isinstance(declaration, Exchange):
        return (
            "PUT",
            f"/exchanges/{quote(declaration.name, safe='')}",
            {
                "type": declaration.type,
                "durable": declaration.durable,
                "auto_delete": declaration.auto_delete,
                "internal": False,
                "arguments": {},
            },
        )
    assert isinstance(declaration, Binding)
    return (
        "POST",
        "/bindings",
        {
            "source": declaration.exchange,
            "destination_queue": declaration.queue,
            "binding_key": declaration.key,
            "arguments": {},
        },
    )


class Waiter:
    """A caller of :meth:`ManagementProvisioner.ensure` that waits for several declarations.

    ``done`` is called once.
    """

    __slots__ = ("done", "missing", "told")

    def __init__(self, missing: Iterable[Declaration], done: Done) -> None:
        self.missing = set(missing)
        self.done = done
        self.told = False

    def tell(self, error: BaseException | None) -> None:
        if not self.told:
            self.told = True
            self.done(error)


class ManagementProvisioner:
    """The declarations on one physical connection, each made once and in order.

    :param timeout: for each request that was sent, seconds
    :param on_lost: called when the peer detaches a link; no declaration is possible any more
    :param on_blocked: called when a declaration has to wait, see :attr:`blocked`
    """

    #: address of the bus's management node
    address = ADDRESS
    #: whether the links carry the property ``paired``
    paired = True

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        timeout: float,
        on_lost: Callable[[exceptions.AmqpError], None],
        on_blocked: Callable[[], object] = bool,
    ) -> None:
        self._scheduler = scheduler
        self._host = host
        self._timeout = timeout
        self._on_lost = on_lost
        self._on_blocked = on_blocked
        #: when the first declaration had to wait for the window to open, on the loop's clock;
        #: None: none waits
        self._blocked_since: float | None = None
        self._sender: EngineSender | None = None
        self._receiver: EngineReceiver | None = None
        self._in_flight: dict[str, tuple[Declaration, Timer]] = {}
        self._queue: deque[Declaration] = deque()
        #: declarations in ``_queue`` or ``_in_flight``
        self._asked: set[Declaration] = set()
        self._known: set[Declaration] = set()
        self._forgotten: Callable[[], object] = bool
        # a dict by declaration: thousands of subscriptions may be restored at once
        self._waiters: dict[Declaration, list[Waiter]] = {}
        self._ids = 0

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        on, paired = session(), self.paired
        self._receiver = engine.receiver(
            on, NAME, self.address, self, settled=True, target=REPLY_TO, paired=paired
        )
        self._sender = engine.sender(
            on, NAME, self.address, self, settled=True, source=REPLY_TO, paired=paired
        )

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Call ``done`` with None once all are declared, or with the error."""
        missing = dict.fromkeys(d for d in declare if d not in self._known)
        if not missing:
            done(None)
            return
        waiter = Waiter(missing, done)
        for declaration in missing:
            self._waiters.setdefault(declaration, []).append(waiter)
            if declaration not in self._asked:
                self._asked.add(declaration)
                self._queue.append(declaration)
        self._flush()

    @property
    def blocked(self) -> bool:
        """See :attr:`Provisioner.blocked`."""
        return self._blocked_since is not None

    def known(self, node: Node) -> bool:
        return all(d in self._known for d in node.declare)

    def forget(self, node: Node) -> None:
        """Mark the declarations of a node as unknown: it may have been deleted.

        The bus has returned a message to the node, or a link to it has to be attached again.
        """
        self._unknown(node.declare)

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        """See :meth:`Provisioner.on_forgotten`."""
        self._forgotten = forgotten
        return True

    def _unknown(self, declarations: Iterable[Declaration]) -> None:
        self._known.difference_update(declarations)
        self._forgotten()

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete nothing, and call ``done`` at once."""
        done(True)

    def connection_lost(self, cause: BaseException) -> None:
        for _, timer in self._in_flight.values():
            timer.cancel()
        self._in_flight.clear()
        self._queue.clear()
        self._asked.clear()
        self._blocked_since = None
        waiters, self._waiters = self._waiters, {}
        for waiter in [waiter for some in waiters.values() for waiter in some]:
            waiter.tell(cause)

    # -- called by the engine ------------------------------------------------

    def link_attached(self) -> None:
        if self._receiver is not None and not self._in_flight:
            self._receiver.grant(max(0, _CREDIT - self._granted))
            self._granted = _CREDIT
        self._flush()

    _granted = 0

    #: False even while requests wait: their credit bounds them, and they have a deadline; see
    #: :class:`SenderHandler`
    waits = False

    def link_credit(self) -> None:
        self._flush()

    def link_outcome(self, key: int, disposition: Disposition) -> None:
        """Ignore the outcome: the provisioner sends its requests settled."""

    def link_detached(self, name: str | None, description: str | None) -> None:
        error = exceptions.from_condition(
            name, description, default=exceptions.LinkFailed, host=self._host, address=self.address
        )
        LOG.error("Nodes can't be declared: %s", error)
        self.connection_lost(error)
        self._on_lost(error)

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self._receiver is not None:
            self._receiver.settle(key, Outcome.ACCEPTED)
            self._receiver.grant(1)
        try:
            message = codec.decode_message(data)
        except exceptions.DecodeError as error:
            LOG.error("Undecodable management response from %s: %s", self._host, error)
            return
        entry = self._in_flight.pop(str(message.correlation_id), None)
        if entry is None:
            self._other_response(message)
            return
        declaration, timer = entry
        timer.cancel()
        reason = self._refusal(message)
        if reason is None:
            self._declared(declaration)
        else:
            self._refused(declaration, reason)
        self._flush()

    # -- requests and responses of this bus --------------------------------------

    def _encoded(self, declaration: Declaration, message_id: str) -> bytes:
        """Return the encoded request for a declaration."""
        method, path, body = request(declaration)
        return codec.encode_message(
            body, message_id=message_id, to=path, subject=method, reply_to=REPLY_TO
        )

    def _refusal(self, response: codec.Message) -> str | None:
        """Return why the bus refuses the declaration; None if the node or binding exists."""
        if response.subject in _SUCCESS:
            return None
        return f"{response.subject}: {response.body!r}"

    def _describe(self, declaration: Declaration) -> tuple[str, str]:
        """Return path and method of the request, for errors."""
        method, path, _ = request(declaration)
        return path, method

    def _other_response(self, response: codec.Message) -> None:
        """Ignore a response for which no declaration waits; subclasses may handle it."""

    # -- inner -----------------------------------------------------------------

    def _flush(self) -> None:
        sender = self._sender
        while self._queue and sender is not None and sender.active:
            if sender.window_closed:
                self._block()
                return
            self._unblock()
            if sender.credit <= 0:
                return
            # RabbitMQ serves a connection's requests in order
            declaration = self._queue.popleft()
            self._ids += 1
            message_id = f"declare-{self._ids}"
            timer = self._scheduler.call_later(self._timeout, partial(self._late, message_id))
            self._in_flight[message_id] = (declaration, timer)
            data = self._encoded(declaration, message_id)
            sender.transfer(data, len(data), True)

    def _block(self) -> None:
        if self._blocked_since is None:
            self._blocked_since = self._scheduler.now()
            LOG.warning(
                "%s takes no declarations: it has closed its session's window, as RabbitMQ "
                "does in an alarm (memory, disk). Queues that exist are read all the "
                "same; those that do not are declared and read when the window opens",
                self._host,
            )
        self._on_blocked()

    def _unblock(self) -> None:
        since, self._blocked_since = self._blocked_since, None
        if since is not None:
            LOG.info(
                "%s takes declarations again, after %.1f s",
                self._host,
                self._scheduler.now() - since,
            )

    def _late(self, message_id: str) -> None:
        entry = self._in_flight.pop(message_id, None)
        if entry is not None:
            self._refused(entry[0], f"no answer within {self._timeout:g} s")

    def _declared(self, declaration: Declaration) -> None:
        self._known.add(declaration)
        for waiter in self._take_waiters(declaration):
            waiter.missing.discard(declaration)
            if not waiter.missing:
                waiter.tell(None)

    def _refused(self, declaration: Declaration, reason: str) -> None:
        path, method = self._describe(declaration)
        error = exceptions.LinkFailed(
            f"the bus does not declare {path} ({method}): {reason}", host=self._host, address=path
        )
        LOG.warning("%s", error)
        for waiter in self._take_waiters(declaration):
            waiter.tell(error)

    def _take_waiters(self, declaration: Declaration) -> list[Waiter]:
        self._asked.discard(declaration)
        return self._waiters.pop(declaration, [])
