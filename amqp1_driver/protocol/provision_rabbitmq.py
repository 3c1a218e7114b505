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

"""Declares queues and bindings on RabbitMQ, and deletes queues that nobody needs any more.

A queue that exists with other arguments is used as it is: a listener that reads nothing, because
an option differs between two processes, is worse.

To delete a queue that is in use would lose messages, and RabbitMQ has no "if unused" for it over
AMQP 1.0.  So the last reader of a queue looks first whether it is the last, and whether the
queue is empty, while its own link still has credit: what is sent between the answer and the
deletion is handed to that link, and not lost.  Lives on the I/O thread.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from amqp1_driver import codec
from amqp1_driver.addressing.base import Node, Queue
from amqp1_driver.protocol.link import Cancellable
from amqp1_driver.protocol.provision import REPLY_TO, Provisioner

LOG = logging.getLogger(__name__)

#: seconds in which queues have to be deleted; else they are left to expire
LEAVE_TIMEOUT = 1.5
#: seconds after which a queue is looked at once more: our own link to it has just gone
LOOK_AGAIN = 0.1

_OTHER_ARGUMENTS = "inequivalent arg"

Answer = Callable[[codec.Message | None], None]


class RabbitmqProvisioner(Provisioner):
    """See the module, and :class:`Provisioner`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asking: dict[str, Answer] = {}

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

    def ask(self, method: str, queue: Queue, answer: Answer) -> None:
        """Tell what management says of a queue; None if it can't be asked."""
        sender = self._sender
        if sender is None or not sender.active or sender.credit <= 0:
            answer(None)
            return
        self._ids += 1
        message_id = f"ask-{self._ids}"
        self._asking[message_id] = answer
        sender.transfer(codec.encode_message(
            None, message_id=message_id, to=f"/queues/{quote(queue.name, safe='')}",
            subject=method, reply_to=REPLY_TO), True)

    def later(self, delay: float, fn: Callable[[], None]) -> Cancellable:
        return self._scheduler.call_later(delay, fn)

    def deleted(self, queue: Queue) -> None:
        LOG.debug("Queue %s on %s is deleted: nobody needs it", queue.name, self._host)
        self._known.discard(queue)

    def connection_lost(self, cause: BaseException) -> None:
        asking, self._asking = self._asking, {}
        for answer in asking.values():
            answer(None)
        super().connection_lost(cause)

    def _other_response(self, response: codec.Message) -> None:
        answer = self._asking.pop(str(response.correlation_id), None)
        if answer is not None:
            answer(response)

    def _refusal(self, response: codec.Message) -> str | None:
        reason = super()._refusal(response)
        if reason is not None and response.subject == "409" and _OTHER_ARGUMENTS in reason:
            LOG.warning("On %s there is a queue that differs from what the options of this "
                        "process say: %s. It is used as it is. To have it as the options say, "
                        "delete it while nobody uses it", self._host, response.body)
            return None
        return reason


class _Leaving:
    """One call of :meth:`RabbitmqProvisioner.leave`."""

    def __init__(self, provisioner: RabbitmqProvisioner, queues: tuple[Queue, ...], readers: int,
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
        self._provisioner.ask("GET", queue, partial(self._seen, queue, again))

    def _seen(self, queue: Queue, again: bool, response: codec.Message | None) -> None:
        if self._done is None:
            return
        found = response.body if response is not None and response.subject == "200" else None
        if not isinstance(found, dict) or found.get("message_count") != 0:
            self._finished(queue)
        elif found.get("consumer_count", 0) <= self._readers:
            self._delete(queue)
        elif again:
            self._provisioner.later(LOOK_AGAIN, lambda: self._look(queue, again=False))
        else:
            self._finished(queue)

    def _delete(self, queue: Queue) -> None:
        self._provisioner.ask("DELETE", queue, partial(self._deleted, queue))

    def _deleted(self, queue: Queue, response: codec.Message | None) -> None:
        if response is not None and response.subject == "200":
            self._provisioner.deleted(queue)
        self._finished(queue)

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
