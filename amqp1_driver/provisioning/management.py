# SPDX-License-Identifier: Apache-2.0

"""The declaration of queues, exchanges and bindings by requests to the bus's management node.

The requests and responses of a bus are in its :class:`Management`.  Every request that was sent has
a deadline.  While the peer keeps its session's window closed, as RabbitMQ does in an alarm,
declarations wait.  Lives on the I/O thread.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Node, Queue
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler, Timer
from amqp1_driver.provisioning.base import DeclaringProvisioner
from amqp1_driver.provisioning.brokerj import Deletion
from amqp1_driver.provisioning.requests import (
    Answer,
    DeclarationRequest,
    RequestNode,
    Requests,
    Response,
)

LOG = exceptions.logger(__name__)


class Management(Protocol):
    """The management of one kind of bus: its node, its requests and its responses."""

    @property
    def node(self) -> RequestNode:
        """Return the node that takes the requests."""
        ...

    @property
    def deletion(self) -> type[Deletion] | None:
        """Return the class that deletes queues; None: the driver deletes none."""
        ...

    def request(self, declaration: Declaration) -> DeclarationRequest:
        """Return the request for a declaration."""
        ...

    def refusal(self, response: Response, host: str) -> str | None:
        """Return why the bus refuses a declaration; None if the node or binding exists.

        :param host: ``hostname:port``, for logs
        """
        ...

    def lifetime(self, declaration: Declaration) -> float | None:
        """Return for how many seconds a declaration stays known; None: until it is forgotten."""
        ...


class ManagementProvisioner(DeclaringProvisioner):
    """The provisioner that declares nodes by requests; see the module.

    :param bus: the requests and responses of this kind of bus
    :param timeout: for each request that was sent, seconds
    :param on_lost: called when the peer detaches one of the links for requests; after that, no
        declaration is possible
    :param on_blocked: called when a declaration has to wait, see :attr:`blocked`
    """

    def __init__(
        self,
        bus: Management,
        scheduler: Scheduler,
        host: str,
        timeout: float,
        on_lost: Callable[[exceptions.AmqpError], None],
        on_blocked: Callable[[], object] = bool,
    ) -> None:
        super().__init__(scheduler, host, timeout)
        self._bus = bus
        self._on_lost = on_lost
        self._on_blocked = on_blocked
        #: when the first declaration had to wait for the window to open, on the loop's clock;
        #: None: none waits
        self._blocked_since: float | None = None
        #: timers of known declarations that have a lifetime
        self._lifetimes: dict[Declaration, Timer] = {}
        self._requests = Requests(
            scheduler, host, bus.node, timeout, on_room=self._flush, on_detached=self._detached
        )

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        self._requests.attach(engine, session)

    @property
    def blocked(self) -> bool:
        return self._blocked_since is not None

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete the temporary queues that are empty and have at most ``readers`` readers."""
        queues = dict.fromkeys(
            d
            for node in nodes
            for d in node.declare
            if isinstance(d, Queue)
            and d.temporary
            and not (d.exclusive and readers)
            and d in self._known
        )
        if self._bus.deletion is None or not queues:
            done(True)
            return
        self._bus.deletion(
            self._scheduler, self._requests, queues, readers, self._deleted, done
        ).begin()

    def connection_lost(self, cause: BaseException) -> None:
        self._blocked_since = None
        for timer in self._lifetimes.values():
            timer.cancel()
        self._lifetimes.clear()
        super().connection_lost(cause)
        self._requests.lost(cause)

    # -- inner -----------------------------------------------------------------

    def _flush(self) -> None:
        requests = self._requests
        while self._queue and requests.attached:
            if requests.window_closed:
                self._block()
                return
            self._unblock()
            if not requests.may_send:
                return
            # RabbitMQ serves a connection's requests in order
            declaration = self._queue.popleft()
            requests.ask(
                self._bus.request(declaration).encode, partial(self._answered, declaration)
            )

    def _answered(self, declaration: Declaration, answer: Answer) -> None:
        if declaration not in self._asked:  # the links or the connection are lost
            return
        if isinstance(answer, exceptions.AmqpError):
            self._refused(declaration, answer.message)
            return
        reason = self._bus.refusal(answer, self._host)
        if reason is None:
            self._declared(declaration)
        else:
            self._refused(declaration, reason)
        self._flush()

    def _declared(self, declaration: Declaration) -> None:
        lifetime = self._bus.lifetime(declaration)
        if lifetime is not None:
            before = self._lifetimes.pop(declaration, None)
            if before is not None:
                before.cancel()
            self._lifetimes[declaration] = self._scheduler.call_later(
                lifetime, partial(self._stale, declaration)
            )
        super()._declared(declaration)

    def _stale(self, declaration: Declaration) -> None:
        del self._lifetimes[declaration]
        self._unknown((declaration,))

    def _deleted(self, queue: Queue) -> None:
        LOG.debug("Queue %s on %s is deleted: nobody needs it", queue.name, self._host)
        self._unknown((queue,))

    def _describe(self, declaration: Declaration) -> tuple[str, str]:
        return self._bus.request(declaration)[:2]

    def _detached(self, error: exceptions.AmqpError) -> None:
        LOG.error("Nodes can't be declared: %s", error)
        self.connection_lost(error)
        self._on_lost(error)

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
