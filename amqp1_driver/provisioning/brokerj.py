# SPDX-License-Identifier: Apache-2.0

"""The management of Apache Qpid Broker-J: declares queues and bindings, deletes queues; pure.

Each virtual host has a node ``$management``.  A request names its operation in the application
properties, and carries attributes in a map.  A response carries a status code like HTTP's.
Broker-J sends it over the link whose target is the request's reply-to, as RabbitMQ does.
"""

from functools import partial
from typing import Any

from amqp1_driver import codec
from amqp1_driver.addressing.base import Binding, Declaration, Queue
from amqp1_driver.provisioning.cleanup import Deletion, Usage
from amqp1_driver.provisioning.requests import Encode, RequestNode, Response

_EXISTS = 409
_STATISTICS = '["queueDepthMessages","consumerCount"]'


def request(declaration: Declaration) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return application properties and body of the request for a declaration."""
    if isinstance(declaration, Queue):
        attributes: dict[str, Any] = {"durable": declaration.durable}
        if declaration.exclusive:
            attributes |= {
                "exclusive": "CONNECTION",
                "lifetimePolicy": "DELETE_ON_CONNECTION_CLOSE",
            }
        elif declaration.auto_delete:
            attributes["lifetimePolicy"] = "DELETE_ON_NO_OUTBOUND_LINKS"
        return (
            {"operation": "CREATE", "type": "org.apache.qpid.Queue"},
            {"name": declaration.name, "object-path": declaration.name, **attributes},
        )
    assert isinstance(declaration, Binding)
    return {
        "operation": "bind",
        "type": "org.apache.qpid.Exchange",
        "index": "object-path",
        "key": declaration.exchange,
        "destination": declaration.queue,
        "bindingKey": declaration.key,
    }, None


def _encode(properties: dict[str, Any], body: Any = None) -> Encode:
    return partial(codec.encode_message, body, application_properties=properties)


def _about(queue: Queue, **properties: str) -> Encode:
    named = {"type": "org.apache.qpid.Queue", "index": "object-path", "key": queue.name}
    return _encode(named | properties)


def _refusal(response: Response) -> str | None:
    if response.good or response.status == _EXISTS:
        return None
    return f"{response.status}: {response.description}"


class BrokerjDeletion:
    """The requests that delete queues of Broker-J; see :class:`Deletion`."""

    def inquiry(self, queue: Queue) -> Encode:
        return _about(queue, operation="getStatistics", statistics=_STATISTICS)

    def usage(self, response: Response) -> Usage | None:
        found = response.body
        if not isinstance(found, dict):
            return None
        messages, readers = found.get("queueDepthMessages"), found.get("consumerCount")
        if not isinstance(messages, int) or not isinstance(readers, int):
            return None
        return Usage(messages, readers)

    def removal(self, queue: Queue) -> Encode:
        return _about(queue, operation="DELETE")

    def removed(self, response: Response) -> bool:
        return _refusal(response) is None


class BrokerjManagement:
    """The management of Broker-J; see the module, and :class:`Management`."""

    node = RequestNode("$management", pair=True)
    deletion: Deletion | None = BrokerjDeletion()

    def request(self, declaration: Declaration) -> Encode:
        return _encode(*request(declaration))

    def describe(self, declaration: Declaration) -> tuple[str, str]:
        properties, body = request(declaration)
        return str((body or {}).get("name") or properties["key"]), properties["operation"]

    def refusal(self, response: Response, host: str) -> str | None:
        return _refusal(response)

    def lifetime(self, declaration: Declaration) -> float | None:
        """Return None: no queue of Broker-J expires, however long it is unused."""
        return None
