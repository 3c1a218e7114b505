# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ's management over AMQP 1.0: it declares queues and bindings; pure.

Two links of one name form a pair with the address ``/management``.  In a request the subject is the
method and ``to`` the path; in a response the subject is the status.

If a queue exists with other arguments, the driver uses the queue as it is.  The alternative is
worse: a listener that reads nothing, because an option differs between two processes.

RabbitMQ deletes an unused queue when it expires.  A sender that declared the queue at the beginning
of a long connection would not notice.  Therefore a declaration is known for half of the expiry
time, and the next message declares the queue again.
"""

from functools import partial
from urllib.parse import quote

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Binding, Declaration, Queue
from amqp1_driver.provisioning.requests import DeclarationRequest, RequestNode, Response

LOG = exceptions.logger(__name__)

_OTHER_ARGUMENTS = "inequivalent arg"


def response(message: codec.Message) -> Response:
    """Return the response in a message: its subject is the status."""
    subject = str(message.subject)
    status = int(subject) if subject.isascii() and subject.isdecimal() else 0
    return Response(status, repr(message.body), message.body)


class RabbitmqManagement:
    """The management of RabbitMQ; see the module, and :class:`Management`."""

    node = RequestNode("/management", pair=True, paired=True, parse=response)
    #: None: queues expire, or RabbitMQ deletes them with their last reader
    deletion = None

    def request(self, declaration: Declaration) -> DeclarationRequest:
        body: dict[str, object]
        if isinstance(declaration, Queue):
            method, path = "PUT", f"/queues/{quote(declaration.name, safe='')}"
            body = {
                "durable": declaration.durable,
                "exclusive": declaration.exclusive,
                "auto_delete": declaration.auto_delete,
                "arguments": dict(declaration.arguments),
            }
        else:
            assert isinstance(declaration, Binding)
            method, path = "POST", "/bindings"
            body = {
                "source": declaration.exchange,
                "destination_queue": declaration.queue,
                "binding_key": declaration.key,
                "arguments": {},
            }
        encode = partial(codec.encode_message, body, to=path, subject=method)
        return DeclarationRequest(path, method, encode)

    def refusal(self, response: Response, host: str) -> str | None:
        if response.good:
            return None
        if response.status == 409 and _OTHER_ARGUMENTS in response.description:
            LOG.warning(
                "On %s there is a queue that differs from what the options of this "
                "process say: %s. It is used as it is. To have it as the options say, "
                "delete it while nobody uses it",
                host,
                response.body,
            )
            return None
        return f"{response.status}: {response.description}"

    def lifetime(self, declaration: Declaration) -> float | None:
        """Return half of the seconds without use after which RabbitMQ deletes a queue."""
        if isinstance(declaration, Queue):
            for name, value in declaration.arguments:
                if name == "x-expires" and isinstance(value, int):
                    return value / 1000 / 2
        return None
