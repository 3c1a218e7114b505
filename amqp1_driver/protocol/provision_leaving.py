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

"""Deletes queues that nobody needs any more, on a bus that has management for it.

To delete a queue that is in use would lose messages, and no "if unused" is to be had.  So the
last reader of a queue looks first whether it is the last, and whether the queue is empty, while
its own link still has credit: what is sent between the answer and the deletion is handed to that
link, and not lost.  Lives on the I/O thread.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from amqp1_driver import codec
from amqp1_driver.addressing.base import Node, Queue
from amqp1_driver.protocol.link import Cancellable
from amqp1_driver.protocol.provision import Provisioner

LOG = logging.getLogger(__name__)

#: seconds in which queues have to be deleted; else they are left to expire
LEAVE_TIMEOUT = 1.5
#: seconds after which a queue is looked at once more: our own link to it has just gone
LOOK_AGAIN = 0.1

Answer = Callable[[codec.Message | None], None]


class Usage(NamedTuple):
    """What management says of a queue."""

    messages: int
    readers: int


class LeavingProvisioner(Provisioner, ABC):
    """See the module, and :class:`Provisioner`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asking: dict[str, Answer] = {}
        self._questions: deque[tuple[Callable[[str], bytes], Answer]] = deque()

    def leave(self, nodes: tuple[Node, ...], readers: int,
              done: Callable[[bool], object]) -> None:
        """Delete the temporary queues of nodes, where no more than ``readers`` read them.

        :param readers: 1 while we read them, afterwards 0
        :param done: called once, with False if the bus was too slow
        """
        queues = dict.fromkeys(d for node in nodes for d in node.declare
                               if isinstance(d, Queue) and d.temporary and d in self._known
                               and not (d.exclusive and readers))
        _Leaving(self, tuple(queues), readers, done).begin()

    def look(self, queue: Queue, answer: Callable[[Usage | None], None]) -> None:
        """Tell how a queue is used; None if that can't be known."""
        self._ask(partial(self._inquiry, queue), lambda response: answer(
            None if response is None else self._usage(response)))

    def delete(self, queue: Queue, answer: Callable[[], None]) -> None:
        """Delete a queue, if it can be done."""
        self._ask(partial(self._removal, queue), partial(self._deleted, queue, answer))

    def later(self, delay: float, fn: Callable[[], None]) -> Cancellable:
        return self._scheduler.call_later(delay, fn)

    def connection_lost(self, cause: BaseException) -> None:
        answers = [*self._asking.values(), *(answer for _, answer in self._questions)]
        self._asking.clear()
        self._questions.clear()
        for answer in answers:
            answer(None)
        super().connection_lost(cause)

    # -- how this bus is asked ---------------------------------------------------

    @abstractmethod
    def _inquiry(self, queue: Queue, message_id: str) -> bytes:
        """The request for a queue's usage."""

    @abstractmethod
    def _removal(self, queue: Queue, message_id: str) -> bytes:
        """The request for a queue's end."""

    @abstractmethod
    def _usage(self, response: codec.Message) -> Usage | None:
        """What the answer to an inquiry says; None if nothing."""

    @abstractmethod
    def _removed(self, response: codec.Message) -> bool:
        """Whether the answer to a removal says that it is done."""

    # -- inner -------------------------------------------------------------------

    def _ask(self, request: Callable[[str], bytes], answer: Answer) -> None:
        self._questions.append((request, answer))
        self._flush()

    def _flush(self) -> None:
        super()._flush()
        sender, questions = self._sender, self._questions
        while questions and sender is not None and sender.active and sender.credit > 0:
            request, answer = questions.popleft()
            self._ids += 1
            message_id = f"ask-{self._ids}"
            self._asking[message_id] = answer
            sender.transfer(request(message_id), True)

    def _deleted(self, queue: Queue, answer: Callable[[], None],
                 response: codec.Message | None) -> None:
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
    """One call of :meth:`LeavingProvisioner.leave`."""

    def __init__(self, provisioner: LeavingProvisioner, queues: tuple[Queue, ...], readers: int,
                 done: Callable[[bool], object]) -> None:
        self._provisioner = provisioner
        self._open = dict.fromkeys(queues)
        self._readers = readers
        self._done: Callable[[bool], object] | None = done
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        if not self._open:
            self._end(True)
            return
        self._timer = self._provisioner.later(LEAVE_TIMEOUT, lambda: self._end(False))
        for queue in list(self._open):
            if queue.exclusive:
                self._delete(queue)
            else:
                self._look(queue, again=not self._readers)

    def _look(self, queue: Queue, again: bool) -> None:
        self._provisioner.look(queue, partial(self._seen, queue, again))

    def _seen(self, queue: Queue, again: bool, usage: Usage | None) -> None:
        if self._done is None:
            return
        if usage is None or usage.messages != 0:
            self._finished(queue)
        elif usage.readers <= self._readers:
            self._delete(queue)
        elif again:
            self._provisioner.later(LOOK_AGAIN, lambda: self._look(queue, again=False))
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
