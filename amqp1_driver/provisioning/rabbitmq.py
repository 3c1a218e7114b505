# SPDX-License-Identifier: Apache-2.0

"""The provisioner for RabbitMQ: declares queues and bindings, and deletes none.

If a queue exists with other arguments, the driver uses the queue as it is.  The alternative is
worse: a listener that reads nothing, because an option differs between two processes.

RabbitMQ deletes an unused queue when it expires.  A sender that declared the queue at the beginning
of a long connection would not notice.  Therefore the provisioner forgets a declaration after half
of the expiry time, and the next message declares the queue again.  Lives on the I/O thread.
"""

from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Declaration, Queue
from amqp1_driver.interfaces import Timer
from amqp1_driver.provisioning.management import ManagementProvisioner

LOG = exceptions.logger(__name__)

_OTHER_ARGUMENTS = "inequivalent arg"


class RabbitmqProvisioner(ManagementProvisioner):
    """The provisioner for RabbitMQ; see the module, and :class:`ManagementProvisioner`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: timers of declared queues that expire: each is known for half of its expiry time
        self._fresh: dict[Declaration, Timer] = {}

    def connection_lost(self, cause: BaseException) -> None:
        for timer in self._fresh.values():
            timer.cancel()
        self._fresh.clear()
        super().connection_lost(cause)

    def _declared(self, declaration: Declaration) -> None:
        expiry = _expiry(declaration)
        if expiry is not None:
            before = self._fresh.pop(declaration, None)
            if before is not None:
                before.cancel()
            self._fresh[declaration] = self._scheduler.call_later(
                expiry / 2, lambda: self._stale(declaration)
            )
        super()._declared(declaration)

    def _stale(self, declaration: Declaration) -> None:
        del self._fresh[declaration]
        self._unknown((declaration,))

    def _refusal(self, response: codec.Message) -> str | None:
        reason = super()._refusal(response)
        if reason is not None and response.subject == "409" and _OTHER_ARGUMENTS in reason:
            LOG.warning(
                "On %s there is a queue that differs from what the options of this "
                "process say: %s. It is used as it is. To have it as the options say, "
                "delete it while nobody uses it",
                self._host,
                response.body,
            )
            return None
        return reason


def _expiry(declaration: Declaration) -> float | None:
    """Return the seconds without use after which RabbitMQ deletes a queue; None: it never does."""
    if isinstance(declaration, Queue):
        for name, value in declaration.arguments:
            if name == "x-expires" and isinstance(value, int):
                return value / 1000
    return None
