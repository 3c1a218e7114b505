#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Declares queues, exchanges and bindings on a bus that has to be told.

RabbitMQ's management over AMQP 1.0: a pair of links of one name with the
address ``/management``, over which requests and responses are messages:
subject = method or status, to = path.  Every request has a deadline, for
during an alarm the broker answers none.  Lives on the I/O thread.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import quote

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Binding, Declaration, Exchange, Node, Queue
from amqp1_driver.policy.outcome import Disposition, Outcome
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineReceiver, EngineSender, EngineSession
from amqp1_driver.protocol.link import Cancellable, Scheduler

LOG = logging.getLogger(__name__)

ADDRESS = "/management"
NAME = "management-link-pair"
REPLY_TO = "$me"
_CREDIT = 100
_SUCCESS = ("200", "201", "204")

Done = Callable[[BaseException | None], None]


def request(declaration: Declaration) -> tuple[str, str, object]:
    """Method, path and body that declare a node."""
    if isinstance(declaration, Queue):
        return "PUT", f"/queues/{quote(declaration.name, safe='')}", {
            "durable": declaration.durable, "exclusive": declaration.exclusive,
            "auto_delete": declaration.auto_delete, "arguments": dict(declaration.arguments)}
    if isinstance(declaration, Exchange):
        return "PUT", f"/exchanges/{quote(declaration.name, safe='')}", {
            "type": declaration.type, "durable": declaration.durable,
            "auto_delete": declaration.auto_delete, "internal": False, "arguments": {}}
    assert isinstance(declaration, Binding)
    return "POST", "/bindings", {
        "source": declaration.exchange, "destination_queue": declaration.queue,
        "binding_key": declaration.key, "arguments": {}}


class Waiter:
    """Waits for several declarations; told once."""

    __slots__ = ("done", "missing", "told")

    def __init__(self, missing: Iterable[Declaration], done: Done) -> None:
        self.missing = set(missing)
        self.done = done
        self.told = False

    def tell(self, error: BaseException | None) -> None:
        if not self.told:
            self.told = True
            self.done(error)


class Provisioner:
    """Declares each node once per connection, in order, and tells when it is there.

    :param timeout: for each request, seconds
    :param on_lost: told when the peer detaches; nothing can be declared any more
    """

    #: of the bus's management
    address = ADDRESS
    paired = True

    def __init__(self, scheduler: Scheduler, host: str, timeout: float,
                 on_lost: Callable[[exceptions.AmqpError], None]) -> None:
        self._scheduler = scheduler
        self._host = host
        self._timeout = timeout
        self._on_lost = on_lost
        self._sender: EngineSender | None = None
        self._receiver: EngineReceiver | None = None
        self._outside: dict[str, tuple[Declaration, Cancellable]] = {}
        self._queue: deque[Declaration] = deque()
        #: what is in one of these
        self._asked: set[Declaration] = set()
        self._known: set[Declaration] = set()
        self._forgotten: Callable[[], object] = bool
        # by what they wait for: thousands of subscriptions may come back at once
        self._waiters: dict[Declaration, list[Waiter]] = {}
        self._ids = 0

    def attach(self, engine: Engine, session: EngineSession) -> None:
        self._receiver = engine.receiver(session, NAME, self.address, self, settled=True,
                                         target=REPLY_TO, paired=self.paired)
        self._sender = engine.sender(session, NAME, self.address, self, settled=True,
                                     source=REPLY_TO, paired=self.paired)

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

    def known(self, node: Node) -> bool:
        return all(d in self._known for d in node.declare)

    def forget(self, node: Node) -> None:
        """A message came back: the node may have been deleted."""
        self._unknown(node.declare)

    def tells(self, forgotten: Callable[[], object]) -> bool:
        """See :meth:`Preparer.tells`."""
        self._forgotten = forgotten
        return True

    def _unknown(self, declarations: Iterable[Declaration]) -> None:
        self._known.difference_update(declarations)
        self._forgotten()

    def leave(self, nodes: tuple[Node, ...], readers: int,
              done: Callable[[bool], object]) -> None:
        """Nothing is deleted."""
        done(True)

    def connection_lost(self, cause: BaseException) -> None:
        for _, timer in self._outside.values():
            timer.cancel()
        self._outside.clear()
        self._queue.clear()
        self._asked.clear()
        waiters, self._waiters = self._waiters, {}
        for waiter in [waiter for some in waiters.values() for waiter in some]:
            waiter.tell(cause)

    # -- told by the engine --------------------------------------------------

    def link_attached(self) -> None:
        if self._receiver is not None and not self._outside:
            self._receiver.grant(max(0, _CREDIT - self._granted))
            self._granted = _CREDIT
        self._flush()

    _granted = 0

    def link_credit(self) -> None:
        self._flush()

    def link_outcome(self, key: int, disposition: Disposition) -> None:
        """Requests are sent settled."""

    def link_detached(self, name: str | None, description: str | None) -> None:
        error = exceptions.from_condition(name, description, default=exceptions.LinkFailed,
                                          host=self._host, address=self.address)
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
        entry = self._outside.pop(str(message.correlation_id), None)
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

    # -- how this bus is asked ---------------------------------------------------

    def _encoded(self, declaration: Declaration, message_id: str) -> bytes:
        """The request."""
        method, path, body = request(declaration)
        return codec.encode_message(body, message_id=message_id, to=path, subject=method,
                                    reply_to=REPLY_TO)

    def _refusal(self, response: codec.Message) -> str | None:
        """Why the bus has not declared it; None: it is there."""
        if response.subject in _SUCCESS:
            return None
        return f"{response.subject}: {response.body!r}"

    def _named(self, declaration: Declaration) -> tuple[str, str]:
        """Path and method, for errors."""
        method, path, _ = request(declaration)
        return path, method

    def _other_response(self, response: codec.Message) -> None:
        """A response to no declaration that still waits."""

    # -- inner -----------------------------------------------------------------

    def _flush(self) -> None:
        sender = self._sender
        while self._queue and sender is not None and sender.active and sender.credit > 0:
            # RabbitMQ serves a connection's requests in order
            declaration = self._queue.popleft()
            self._ids += 1
            message_id = f"declare-{self._ids}"
            timer = self._scheduler.call_later(self._timeout, partial(self._late, message_id))
            self._outside[message_id] = (declaration, timer)
            sender.transfer(self._encoded(declaration, message_id), True)

    def _late(self, message_id: str) -> None:
        entry = self._outside.pop(message_id, None)
        if entry is not None:
            self._refused(entry[0], f"no answer within {self._timeout:g} s")

    def _declared(self, declaration: Declaration) -> None:
        self._known.add(declaration)
        for waiter in self._take_waiters(declaration):
            waiter.missing.discard(declaration)
            if not waiter.missing:
                waiter.tell(None)

    def _refused(self, declaration: Declaration, reason: str) -> None:
        path, method = self._named(declaration)
        error = exceptions.LinkFailed(f"the bus does not declare {path} ({method}): {reason}",
                                      host=self._host, address=path)
        LOG.warning("%s", error)
        for waiter in self._take_waiters(declaration):
            waiter.tell(error)

    def _take_waiters(self, declaration: Declaration) -> list[Waiter]:
        self._asked.discard(declaration)
        return self._waiters.pop(declaration, [])
