# SPDX-License-Identifier: Apache-2.0

"""The provisioner for Apache Qpid Broker-J: declares queues and bindings, deletes unused queues.

Each virtual host has a node ``$management``.  A request names its operation in the application
properties, and carries attributes in a map.  A response carries a status code like HTTP's.
Broker-J sends it over the link whose target is the request's reply-to, as RabbitMQ does.
Lives on the I/O thread.
"""

from typing import Any

from amqp1_driver import codec
from amqp1_driver.addressing.base import Binding, Declaration, Queue
from amqp1_driver.provisioning.cleanup import LeavingProvisioner, Usage
from amqp1_driver.provisioning.management import REPLY_TO

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


def _about(queue: Queue) -> dict[str, Any]:
    return {"type": "org.apache.qpid.Queue", "index": "object-path", "key": queue.name}


def _message(properties: dict[str, Any], body: Any, message_id: str) -> bytes:
    return codec.encode_message(
        body, message_id=message_id, reply_to=REPLY_TO, application_properties=properties
    )


class QpidProvisioner(LeavingProvisioner):
    """The provisioner for Broker-J; see the module, and :class:`LeavingProvisioner`."""

    address = "$management"
    paired = False

    def _encoded(self, declaration: Declaration, message_id: str) -> bytes:
        return _message(*request(declaration), message_id)

    def _inquiry(self, queue: Queue, message_id: str) -> bytes:
        return _message(
            {**_about(queue), "operation": "getStatistics", "statistics": _STATISTICS},
            None,
            message_id,
        )

    def _removal(self, queue: Queue, message_id: str) -> bytes:
        return _message({**_about(queue), "operation": "DELETE"}, None, message_id)

    def _usage(self, response: codec.Message) -> Usage | None:
        found = response.body
        if not isinstance(found, dict):
            return None
        messages, readers = found.get("queueDepthMessages"), found.get("consumerCount")
        if not isinstance(messages, int) or not isinstance(readers, int):
            return None
        return Usage(messages, readers)

    def _removed(self, response: codec.Message) -> bool:
        return self._refusal(response) is None

    def _refusal(self, response: codec.Message) -> str | None:
        properties = response.application_properties
        code = properties.get("statusCode")
        if code == _EXISTS or (isinstance(code, int) and 200 <= code < 300):
            return None
        return f"{code}: {properties.get('statusDescription')}"

    def _describe(self, declaration: Declaration) -> tuple[str, str]:
        properties, body = request(declaration)
        return str((body or {}).get("name") or properties["key"]), properties["operation"]
