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
an option differs between two processes, is worse.  Lives on the I/O thread.
"""

import logging
from urllib.parse import quote

from amqp1_driver import codec
from amqp1_driver.addressing.base import Queue
from amqp1_driver.protocol.provision import REPLY_TO
from amqp1_driver.protocol.provision_leaving import LeavingProvisioner, Usage

LOG = logging.getLogger(__name__)

_OTHER_ARGUMENTS = "inequivalent arg"


class RabbitmqProvisioner(LeavingProvisioner):
    """See the module, and :class:`Provisioner`."""

    def _inquiry(self, queue: Queue, message_id: str) -> bytes:
        return _about(queue, "GET", message_id)

    def _removal(self, queue: Queue, message_id: str) -> bytes:
        return _about(queue, "DELETE", message_id)

    def _usage(self, response: codec.Message) -> Usage | None:
        found = response.body if response.subject == "200" else None
        if not isinstance(found, dict) or not isinstance(found.get("message_count"), int):
            return None
        return Usage(found["message_count"], found.get("consumer_count", 0))

    def _removed(self, response: codec.Message) -> bool:
        return response.subject == "200"

    def _refusal(self, response: codec.Message) -> str | None:
        reason = super()._refusal(response)
        if reason is not None and response.subject == "409" and _OTHER_ARGUMENTS in reason:
            LOG.warning("On %s there is a queue that differs from what the options of this "
                        "process say: %s. It is used as it is. To have it as the options say, "
                        "delete it while nobody uses it", self._host, response.body)
            return None
        return reason


def _about(queue: Queue, method: str, message_id: str) -> bytes:
    return codec.encode_message(
        None, message_id=message_id, to=f"/queues/{quote(queue.name, safe='')}", subject=method,
        reply_to=REPLY_TO)
