# SPDX-License-Identifier: Apache-2.0

"""The deletion of queues that have no reader any more, on a bus whose management can delete.

The deletion of a queue in use would lose messages, and the bus offers no deletion "if unused".
Therefore a reader first checks that it is the queue's last reader and that the queue is empty.
Its own link still has credit meanwhile: the bus hands a message that arrives between the answer and
the deletion to that link, so the message is not lost.  Lives on the I/O thread.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Queue
from amqp1_driver.interfaces import Scheduler, Timer
from amqp1_driver.provisioning.requests import Encode, Requests, Response

LOG = exceptions.logger(__name__)

#: seconds within which the bus has to delete queues; queues that remain are left to expire
DELETE_TIMEOUT_SECONDS = 1.5
#: seconds until the second check of a queue: the bus may still count our own link, which has
#: just been detached
RECHECK_SECONDS = 0.1


class Usage(NamedTuple):
    """The numbers of messages and readers that management reports for a queue."""

    messages: int
    readers: int


class Deletion(Protocol):
    """The requests and responses by which the management of a bus deletes queues."""

    def inquiry(self, queue: Queue) -> Encode:
        """Return the request for a queue's usage."""
        ...

    def usage(self, response: Response) -> Usage | None:
        """Return the usage that the response to an inquiry reports; None if it reports none."""
        ...

    def removal(self, queue: Queue) -> Encode:
        """Return the request that deletes a queue."""
        ...

    def removed(self, response: Response) -> bool:
        """Return whether the response to a removal confirms it."""
        ...


class Cleanup:
    """The deletion of queues on one physical connection; see the module.

    :param deletion: the requests and responses of the bus
    :param on_deleted: called with each queue that was deleted
    """

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        requests: Requests,
        deletion: Deletion,
        on_deleted: Callable[[Queue], None],
    ) -> None:
        self.scheduler = scheduler
        self._host = host
        self._requests = requests
        self._bus = deletion
        self._on_deleted = on_deleted

    def delete_unused(
        self, declared: Iterable[Declaration], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete the temporary queues that are empty and have at most ``readers`` readers.

        An exclusive queue needs no check, and is deleted only when ``readers`` is 0.

        :param readers: 1 while our own links still read the queues, afterwards 0
        :param done: called once; with False if the bus was too slow
        """
        queues = dict.fromkeys(
            d
            for d in declared
            if isinstance(d, Queue) and d.temporary and not (d.exclusive and readers)
        )
        _Leaving(self, tuple(queues), readers, done).begin()

    def query_usage(self, queue: Queue, answer: Callable[[Usage | None], None]) -> None:
        """Ask how a queue is used.

        :param answer: called with the usage, or with None if the bus does not report it
        """
        self._requests.ask(
            self._bus.inquiry(queue),
            lambda found: answer(self._bus.usage(found) if isinstance(found, Response) else None),
        )

    def delete(self, queue: Queue, answer: Callable[[], None]) -> None:
        """Delete a queue if possible, then call ``answer``, also after a failure."""
        self._requests.ask(self._bus.removal(queue), partial(self._removed, queue, answer))

    def _removed(
        self,
        queue: Queue,
        answer: Callable[[], None],
        found: "Response | exceptions.AmqpError",
    ) -> None:
        if isinstance(found, Response) and self._bus.removed(found):
            LOG.debug("Queue %s on %s is deleted: nobody needs it", queue.name, self._host)
            self._on_deleted(queue)
        answer()


class _Leaving:
    """One call of :meth:`Cleanup.delete_unused`."""

    def __init__(
        self,
        cleanup: Cleanup,
        queues: tuple[Queue, ...],
        readers: int,
        done: Callable[[bool], object],
    ) -> None:
        self._cleanup = cleanup
        self._open = dict.fromkeys(queues)
        self._readers = readers
        self._done: Callable[[bool], object] | None = done
        self._timer: Timer | None = None

    def begin(self) -> None:
        if not self._open:
            self._end(True)
            return
        self._timer = self._cleanup.scheduler.call_later(
            DELETE_TIMEOUT_SECONDS, lambda: self._end(False)
        )
        for queue in list(self._open):
            if queue.exclusive:
                self._delete(queue)
            else:
                self._look(queue, again=not self._readers)

    def _look(self, queue: Queue, again: bool) -> None:
        self._cleanup.query_usage(queue, partial(self._seen, queue, again))

    def _seen(self, queue: Queue, again: bool, usage: Usage | None) -> None:
        if self._done is None:
            return
        if usage is None or usage.messages != 0:
            self._finished(queue)
        elif usage.readers <= self._readers:
            self._delete(queue)
        elif again:
            self._cleanup.scheduler.call_later(
                RECHECK_SECONDS, lambda: self._look(queue, again=False)
            )
        else:
            self._finished(queue)

    def _delete(self, queue: Queue) -> None:
        self._cleanup.delete(queue, lambda: self._finished(queue))

    def _finished(self, queue: Queue) -> None:
        self._open.pop(queue, None)
        if not self._open:
            self._end(True)

    def _end(self, in_time: bool) -> None:
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if done is not None:
            done(in_time)
