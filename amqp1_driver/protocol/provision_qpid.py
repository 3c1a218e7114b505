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

"""Declares queues and bindings on Apache Qpid Broker-J, and deletes those nobody needs any more.

By its node ``$management`` in each virtual host: requests say what to do in application
properties, and carry attributes in a map; responses carry a status code like HTTP's.  They come
over the link whose target is the request's reply-to, as on RabbitMQ.  Lives on the I/O thread.
"""

from typing import Any

from amqp1_driver import codec
from amqp1_driver.addressing.base import Binding, Declaration, Queue
from amqp1_driver.protocol.provision import REPLY_TO
from amqp1_driver.protocol.provision_leaving import LeavingProvisioner, Usage

_EXISTS = 409
_STATISTICS = '["queueDepthMessages","consumerCount"]'


def request(declaration: Declaration) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Application properties and body that declare a node."""
    if isinstance(declaration, Queue):
        attributes: dict[str, Any] = {"durable": declaration.durable}
        if declaration.exclusive:
            attributes |= {"exclusive": "CONNECTION",
                           "lifetimePolicy": "DELETE_ON_CONNECTION_CLOSE"}
        elif declaration.auto_delete:
            attributes["lifetimePolicy"] = "DELETE_ON_NO_OUTBOUND_LINKS"
        return ({"operation": "CREATE", "type": "org.apache.qpid.Queue"},
                {"name": declaration.name, "object-path": declaration.name, **attributes})
    assert isinstance(declaration, Binding)
    return {"operation": "bind", "type": "org.apache.qpid.Exchange", "index": "object-path",
            "key": declaration.exchange, "destination": declaration.queue,
            "bindingKey": declaration.key}, None


def _about(queue: Queue) -> dict[str, Any]:
    return {"type": "org.apache.qpid.Queue", "index": "object-path", "key": queue.name}


def _message(properties: dict[str, Any], body: Any, message_id: str) -> bytes:
    return codec.encode_message(body, message_id=message_id, reply_to=REPLY_TO,
                                application_properties=properties)


class QpidProvisioner(LeavingProvisioner):
    """See the module, and :class:`Provisioner`."""

    address = "$management"
    paired = False

    def _encoded(self, declaration: Declaration, message_id: str) -> bytes:
        return _message(*request(declaration), message_id)

    def _inquiry(self, queue: Queue, message_id: str) -> bytes:
        return _message({**_about(queue), "operation": "getStatistics",
                         "statistics": _STATISTICS}, None, message_id)

    def _removal(self, queue: Queue, message_id: str) -> bytes:
        return _message({**_about(queue), "operation": "DELETE"}, None, message_id)

    def _usage(self, response: codec.Message) -> Usage | None:
        found = response.body
        if not isinstance(found, dict) or not isinstance(found.get("queueDepthMessages"), int):
            return None
        return Usage(found["queueDepthMessages"], found.get("consumerCount", 0))

    def _removed(self, response: codec.Message) -> bool:
        return self._refusal(response) is None

    def _refusal(self, response: codec.Message) -> str | None:
        properties = response.application_properties
        code = properties.get("statusCode")
        if code == _EXISTS or (isinstance(code, int) and 200 <= code < 300):
            return None
        return f"{code}: {properties.get('statusDescription')}"

    def _named(self, declaration: Declaration) -> tuple[str, str]:
        properties, body = request(declaration)
        return str((body or {}).get("name") or properties["key"]), properties["operation"]
