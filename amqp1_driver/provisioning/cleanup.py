# SPDX-License-Identifier: Apache-2.0

"""The deletion of queues that have no reader any more, on a bus whose management can delete.

The deletion of a queue in use would lose messages, and the bus offers no deletion "if unused".
Therefore a reader first checks that it is the queue's last reader and that the queue is empty.
Its own link still has credit meanwhile: the bus hands a message that arrives between the answer and
the deletion to that link, so the message is not lost.  Lives on the I/O thread.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Node, Queue
from amqp1_driver.interfaces import Timer
from amqp1_driver.provisioning.management import ManagementProvisioner

LOG = exceptions.logger(__name__)

#: seconds within which the bus has to delete queues; the others are left to expire
DELETE_TIMEOUT_SECONDS = 1.5
#: seconds until the second check of a queue: the bus may still count our own link, which has
#: just been detached
RECHECK_SECONDS = 0.1

Answer = Callable[[codec.Message | None], None]


class Usage(NamedTuple):
    """The numbers of messages and readers that management reports for a queue."""

    messages: int
    readers: int


class LeavingProvisioner(ManagementProvisioner, ABC):
    """A provisioner that can delete queues; see the module, and :class:`ManagementProvisioner`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asking: dict[str, Answer] = {}
        self._questions: deque[tuple[Callable[[str], bytes], Answer]] = deque()

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete the nodes' temporary queues that are empty and have at most ``readers`` readers.

        An exclusive queue needs no check, and is deleted only when ``readers`` is 0.

        :param readers: 1 while our own links still read the queues, afterwards 0
        :param done: called once; with False if the bus was too slow
        """
        queues = dict.fromkeys(
            d
            for node in nodes
            for d in node.declare
            if isinstance(d, Queue)
            and d.temporary
            and d in self._known
            and not (d.exclusive and readers)
        )
        _Leaving(self, tuple(queues), readers, done).begin()

    def query_usage(self, queue: Queue, answer: Callable[[Usage | None], None]) -> None:
        """Ask how a queue is used.

        :param answer: called with the usage, or with None if the bus does not report it
        """
        self._ask(
            partial(self._inquiry, queue),
            lambda response: answer(None if response is None else self._usage(response)),
        )

    def delete(self, queue: Queue, answer: Callable[[], None]) -> None:
        """Delete a queue if possible, then call ``answer``, also after a failure."""
        self._ask(partial(self._removal, queue), partial(self._deleted, queue, answer))

    def later(self, delay: float, fn: Callable[[], None]) -> Timer:
        return self._scheduler.call_later(delay, fn)

    def connection_lost(self, cause: BaseException) -> None:
        answers = [*self._asking.values(), *(answer for _, answer in self._questions)]
        self._asking.clear()
        self._questions.clear()
        for answer in answers:
            answer(None)
        super().connection_lost(cause)

    # -- requests and responses of this bus --------------------------------------

    @abstractmethod
    def _inquiry(self, queue: Queue, message_id: str) -> bytes:
        """Return the encoded request for a queue's usage."""

    @abstractmethod
    def _removal(self, queue: Queue, message_id: str) -> bytes:
        """Return the encoded request that deletes a queue."""

    @abstractmethod
    def _usage(self, response: codec.Message) -> Usage | None:
        """Return the usage that the response to an inquiry reports; None if it reports none."""

    @abstractmethod
    def _removed(self, response: codec.Message) -> bool:
        """Return whether the response to a removal confirms it."""

    # -- inner -------------------------------------------------------------------

    def _ask(self, request: Callable[[str], bytes], answer: Answer) -> None:
        self._questions.append((request, answer))
        self._flush()

    def _flush(self) -> None:
        super()._flush()
        sender, questions = self._sender, self._questions
        while questions and sender is not None and sender.active and sender.may_send:
            request, answer = questions.popleft()
            self._ids += 1
            message_id = f"ask-{self._ids}"
            self._asking[message_id] = answer
            data = request(message_id)
            sender.transfer(data, len(data), True)

    def _deleted(
        self, queue: Queue, answer: Callable[[], None], response: codec.Message | None
    ) -> None:
        if response is not None and self._removed(response):
            LOG.debug("Queue %s on %s is deleted: nobody needs it", queue.name, self._host)
            self._unknown((queue,))
        answer()

    def _other_response(self, response: codec.Message) -> None:
        answer = self._asking.pop(str(response.correlation_id), None)
        if answer is not None:
            answer(response)
        self._flush()


class _Leaving:
    """One call of :meth:`LeavingProvisioner.delete_unused`."""

    def __init__(
        self,
        provisioner: LeavingProvisioner,
        queues: tuple[Queue, ...],
        readers: int,
        done: Callable[[bool], object],
    ) -> None:
        self._provisioner = provisioner
        self._open = dict.fromkeys(queues)
        self._readers = readers
        self._done: Callable[[bool], object] | None = done
        self._timer: Timer | None = None

    def begin(self) -> None:
        if not self._open:
            self._end(True)
            return
        self._timer = self._provisioner.later(DELETE_TIMEOUT_SECONDS, lambda: self._end(False))
        for queue in list(self._open):
            if queue.exclusive:
                self._delete(queue)
            else:
                self._look(queue, again=not self._readers)

    def _look(self, queue: Queue, again: bool) -> None:
        self._provisioner.query_usage(queue, partial(self._seen, queue, again))

    def _seen(self, queue: Queue, again: bool, usage: Usage | None) -> None:
        if self._done is None:
            return
        if usage is None or usage.messages != 0:
            self._finished(queue)
        elif usage.readers <= self._readers:
            self._delete(queue)
        elif again:
            self._provisioner.later(RECHECK_SECONDS, lambda: self._look(queue, again=False))
        else:
            self._finished(queue)

    def _delete(self, queue: Queue) -> None:
        self._provisioner.delete(queue, lambda: self._finished(queue))

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
