# SPDX-License-Identifier: Apache-2.0

"""The management of Apache Qpid Broker-J: declares queues and bindings, deletes queues.

Each virtual host has a node ``$management``.  A request names its operation in the application
properties, and carries attributes in a map.  A response carries a status code like HTTP's.
Broker-J sends it over the link whose target is the request's reply-to, as RabbitMQ does.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from amqp1_driver import codec
from amqp1_driver.addressing.base import Binding, Declaration, Queue
from amqp1_driver.interfaces import Scheduler
from amqp1_driver.provisioning.requests import (
    Answer,
    DeclarationRequest,
    Encode,
    RequestNode,
    Requests,
    Response,
)

#: seconds within which the bus has to delete queues; queues that remain are left to expire
DELETE_TIMEOUT_SECONDS = 1.5
#: seconds until the second check of a queue: the bus may still count our own link, which has
#: just been detached
RECHECK_SECONDS = 0.1
_EXISTS = 409
_STATISTICS = '["queueDepthMessages","consumerCount"]'


def _encode(properties: dict[str, Any], body: Any = None) -> Encode:
    return partial(codec.encode_message, body, application_properties=properties)


def _about(queue: Queue, **properties: str) -> Encode:
    named = {"type": "org.apache.qpid.Queue", "index": "object-path", "key": queue.name}
    return _encode(named | properties)


def _refusal(response: Response) -> str | None:
    if response.good or response.status == _EXISTS:
        return None
    return f"{response.status}: {response.description}"


class Deletion:
    """The deletion of queues that have no reader any more.

    The deletion of a queue in use would lose messages, and the bus offers no deletion "if unused".
    Therefore a reader first checks that it is the queue's last reader and that the queue is empty.
    Its own link still has credit meanwhile: the bus hands a message that arrives between the answer
    and the deletion to that link, so the message is not lost.  Lives on the I/O thread.

    :param queues: the queues; an exclusive queue needs no check
    :param readers: 1 while our own links still read the queues, afterwards 0
    :param on_deleted: called with each queue that was deleted
    :param done: called once; with False if the bus was too slow
    """

    def __init__(
        self,
        scheduler: Scheduler,
        requests: Requests,
        queues: Iterable[Queue],
        readers: int,
        on_deleted: Callable[[Queue], None],
        done: Callable[[bool], object],
    ) -> None:
        self._scheduler = scheduler
        self._requests = requests
        self._open = dict.fromkeys(queues)
        self._readers = readers
        self._on_deleted = on_deleted
        self._done: Callable[[bool], object] | None = done
        self._timer = scheduler.call_later(DELETE_TIMEOUT_SECONDS, lambda: self._end(False))

    def begin(self) -> None:
        for queue in list(self._open):
            if queue.exclusive:
                self._delete(queue)
            else:
                self._look(queue, again=not self._readers)

    def _look(self, queue: Queue, again: bool) -> None:
        inquiry = _about(queue, operation="getStatistics", statistics=_STATISTICS)
        self._requests.ask(inquiry, partial(self._seen, queue, again))

    def _seen(self, queue: Queue, again: bool, answer: Answer) -> None:
        if self._done is None:
            return
        found = answer.body if isinstance(answer, Response) else None
        found = found if isinstance(found, dict) else {}
        messages, readers = found.get("queueDepthMessages"), found.get("consumerCount")
        if messages != 0 or not isinstance(readers, int):
            self._finished(queue)
        elif readers <= self._readers:
            self._delete(queue)
        elif again:
            self._scheduler.call_later(RECHECK_SECONDS, lambda: self._look(queue, again=False))
        else:
            self._finished(queue)

    def _delete(self, queue: Queue) -> None:
        removal = _about(queue, operation="DELETE")
        self._requests.ask(removal, partial(self._removed, queue))

    def _removed(self, queue: Queue, answer: Answer) -> None:
        if isinstance(answer, Response) and _refusal(answer) is None:
            self._on_deleted(queue)
        self._finished(queue)

    def _finished(self, queue: Queue) -> None:
        self._open.pop(queue, None)
        if not self._open:
            self._end(True)

    def _end(self, in_time: bool) -> None:
        self._timer.cancel()
        done, self._done = self._done, None
        if done is not None:
            done(in_time)


class BrokerjManagement:
    """The management of Broker-J; see the module, and :class:`Management`."""

    node = RequestNode("$management", pair=True)
    deletion = Deletion

    def request(self, declaration: Declaration) -> DeclarationRequest:
        if isinstance(declaration, Queue):
            name = declaration.name
            body = {"name": name, "object-path": name, "durable": declaration.durable}
            if declaration.exclusive:
                body["exclusive"] = "CONNECTION"
                body["lifetimePolicy"] = "DELETE_ON_CONNECTION_CLOSE"
            elif declaration.auto_delete:
                body["lifetimePolicy"] = "DELETE_ON_NO_OUTBOUND_LINKS"
            create = {"operation": "CREATE", "type": "org.apache.qpid.Queue"}
            return DeclarationRequest(name, "CREATE", _encode(create, body))
        assert isinstance(declaration, Binding)
        bind = {
            "operation": "bind",
            "type": "org.apache.qpid.Exchange",
            "index": "object-path",
            "key": declaration.exchange,
            "destination": declaration.queue,
            "bindingKey": declaration.key,
        }
        return DeclarationRequest(declaration.exchange, "bind", _encode(bind))

    def refusal(self, response: Response, host: str) -> str | None:
        return _refusal(response)

    def lifetime(self, declaration: Declaration) -> float | None:
        """Return None: no queue of Broker-J expires, however long it is unused."""
        return None
