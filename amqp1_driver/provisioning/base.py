# SPDX-License-Identifier: Apache-2.0

"""Provisioners: declare a node, or put a token for it, before a link is opened.

Lives on the I/O thread.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.addressing.servicebus import missing
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler

LOG = exceptions.logger(__name__)

Done = Callable[[BaseException | None], None]
T = TypeVar("T")


class Provisioner(ABC):
    """A provisioner of nodes on one physical connection.  Lives on the I/O thread."""

    @abstractmethod
    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        """Open the links for requests on a physical connection.

        :param session: returns the session in which to open them
        """

    @property
    def blocked(self) -> bool:
        """Return whether the bus accepts no requests at present, so that declarations wait."""
        return False

    @abstractmethod
    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Make the declarations of nodes, or put tokens for them, unless that is done already.

        :param done: called once, with None after success, or with the error
        """

    @abstractmethod
    def known(self, node: Node) -> bool:
        """Return whether the driver can open links to the node and send messages to it."""

    @abstractmethod
    def forget(self, node: Node) -> None:
        """Mark a node that may have been deleted, so that :meth:`ensure` checks it again."""

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        """Call ``forgotten``, from now on, whenever a known declaration becomes unknown.

        :returns: False if this provisioner can't report that; then ask :meth:`known` for each
            message
        """
        return False

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete the queues that this process no longer needs and that the bus would keep.

        :param readers: how many of our links still read each node, 0 or 1
        :param done: called once; with False if the bus was too slow, otherwise with True
        """
        done(True)

    @abstractmethod
    def connection_lost(self, cause: BaseException) -> None:
        """Give ``cause`` to all callers that wait; ignore answers from now on."""


class Waiter(Generic[T]):
    """A caller of :meth:`Provisioner.ensure` that waits for several answers.

    :param done: called once: with None after all answers, or with the first error
    """

    __slots__ = ("_done", "_missing")

    def __init__(self, missing: Iterable[T], done: Done) -> None:
        self._missing = set(missing)
        self._done: Done | None = done

    def answered(self, item: T) -> None:
        self._missing.discard(item)
        if not self._missing:
            self.finish(None)

    def finish(self, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)


def finish_all(waiters: Mapping[Any, Iterable[Waiter[Any]]], cause: BaseException) -> None:
    """Give ``cause`` to all callers that wait."""
    for waiter in [waiter for some in waiters.values() for waiter in some]:
        waiter.finish(cause)


class DeclaringProvisioner(Provisioner):
    """The base of provisioners that declare nodes: makes each declaration once, and in order.

    Subclasses send the declarations.

    :param timeout: for each declaration that was sent, seconds
    """

    def __init__(self, scheduler: Scheduler, host: str, timeout: float) -> None:
        self._scheduler = scheduler
        self._host = host
        self._timeout = timeout
        #: declarations that are not sent yet
        self._queue: deque[Declaration] = deque()
        #: declarations that are in ``_queue``, or sent and not answered
        self._asked: set[Declaration] = set()
        self._known: set[Declaration] = set()
        self._forgotten: Callable[[], object] = bool
        # a dict by declaration: thousands of subscriptions may be restored at once
        self._waiters: dict[Declaration, list[Waiter[Declaration]]] = {}

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
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
        self._unknown(node.declare)

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        self._forgotten = forgotten
        return True

    def connection_lost(self, cause: BaseException) -> None:
        self._queue.clear()
        self._asked.clear()
        waiters, self._waiters = self._waiters, {}
        finish_all(waiters, cause)

    # -- for the subclasses ------------------------------------------------------

    @abstractmethod
    def _flush(self) -> None:
        """Send the declarations in ``_queue``, in order, as far as the bus takes them now."""

    @abstractmethod
    def _describe(self, declaration: Declaration) -> tuple[str, str]:
        """Return name and method of a declaration, for errors."""

    def _unknown(self, declarations: Iterable[Declaration]) -> None:
        self._known.difference_update(declarations)
        self._forgotten()

    def _declared(self, declaration: Declaration) -> None:
        self._known.add(declaration)
        for waiter in self._take_waiters(declaration):
            waiter.answered(declaration)

    def _refused(self, declaration: Declaration, reason: str) -> None:
        path, method = self._describe(declaration)
        error = exceptions.LinkFailed(
            f"the bus does not declare {path} ({method}): {reason}", host=self._host, address=path
        )
        LOG.warning("%s", error)
        for waiter in self._take_waiters(declaration):
            waiter.finish(error)

    def _take_waiters(self, declaration: Declaration) -> list[Waiter[Declaration]]:
        self._asked.discard(declaration)
        return self._waiters.pop(declaration, [])


def ensure_then_attach(
    preparer: Provisioner | None, node: Node, attach: Callable[[], None]
) -> None:
    """Provision a node before its link is attached again: its queue may have been deleted.

    While the bus accepts no requests, or if provisioning fails, attach the link all the same.

    :param attach: attaches the link; called in every case
    """
    if preparer is None or not node.declare or preparer.blocked:
        attach()
        return
    preparer.forget(node)
    preparer.ensure(node.declare, lambda error: attach())


def predeclared(declare: tuple[Declaration, ...]) -> tuple[Entity, ...]:
    """Return the declarations of what must exist already, since AMQP has no means to create it."""
    return tuple(d for d in declare if isinstance(d, Entity))


def missing_entities_error(
    error: exceptions.AmqpError, gone: tuple[Entity, ...], needed: tuple[Entity, ...] = ()
) -> exceptions.AmqpError | None:
    """Turn the peer's refusal of a link into an error that names the entities to create.

    :param gone: the missing entities
    :param needed: further entities that the operation uses, whether they exist or not
    :returns: None if ``gone`` is empty or the condition is not ``amqp:not-found``
    """
    if not gone or error.condition != "amqp:not-found":
        return None
    found = exceptions.LinkFailed(
        missing(gone, needed),
        host=error.host,
        address=error.address,
        condition=error.condition,
        description=error.description,
    )
    found.__cause__ = error
    return found
