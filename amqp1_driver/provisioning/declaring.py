# SPDX-License-Identifier: Apache-2.0

"""The base of provisioners that declare nodes: it makes each declaration once, and in order.

It is the same for every bus: its subclasses send the declarations.  Lives on the I/O thread.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Node
from amqp1_driver.interfaces import Scheduler
from amqp1_driver.provisioning.base import Done

LOG = exceptions.logger(__name__)


class Waiter:
    """A caller of :meth:`DeclaringProvisioner.ensure` that waits for several declarations.

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


class DeclaringProvisioner(ABC):
    """The declarations on one physical connection, and the callers that wait for them.

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
        self._waiters: dict[Declaration, list[Waiter]] = {}

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Make the missing declarations; see :meth:`Provisioner.ensure`."""
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
        """Mark the declarations of a node as unknown: it may have been deleted.

        The bus has returned a message to the node, or a link to it has to be attached again.
        """
        self._unknown(node.declare)

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        """See :meth:`Provisioner.on_forgotten`."""
        self._forgotten = forgotten
        return True

    def connection_lost(self, cause: BaseException) -> None:
        """Give ``cause`` to all callers that wait; ignore answers from now on."""
        self._queue.clear()
        self._asked.clear()
        waiters, self._waiters = self._waiters, {}
        for waiter in [waiter for some in waiters.values() for waiter in some]:
            waiter.tell(cause)

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
