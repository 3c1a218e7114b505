# SPDX-License-Identifier: Apache-2.0
"""A client of the buses without this driver: python-qpid-proton alone."""

from __future__ import annotations

from typing import Any

import proton
from proton import Array, Data, Delivery, Message, symbol
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, LinkDetached

OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
_NAMES = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}
TIMEOUT = 10


class _Apply(LinkOption):
    def __init__(self, change: Any) -> None:
        self._change = change

    def apply(self, link: Any) -> None:
        self._change(link)


def _symbols(*names: str) -> Array:
    return Array(proton.UNDESCRIBED, Data.SYMBOL, *map(symbol, names))


class Raw:
    """One connection. Every wait ends after ten seconds."""

    def __init__(self, port: int, **options: Any) -> None:
        self.blocking = BlockingConnection(
            f"127.0.0.1:{port}",
            timeout=TIMEOUT,
            user="guest",
            password="guest",
            sasl_enabled=True,
            allowed_mechs="PLAIN",
            **options,
        )
        self.open = self.blocking.conn
        self._links = 0

    def sender(
        self, address: str | None, capability: str | None = None, outcomes: bool = False
    ) -> Any:
        def change(link: Any) -> None:
            if capability:
                link.target.capabilities.put_object(_symbols(capability))
            if outcomes:
                link.source.outcomes.put_object(_symbols(*OUTCOMES))

        return self.blocking.create_sender(
            address, name=self._name(), options=[_Apply(change)]
        ).link

    def receiver(
        self, address: str | None, capability: str | None = None, target: str | None = None
    ) -> Any:
        def change(link: Any) -> None:
            if capability:
                link.source.capabilities.put_object(_symbols(capability))
            if target:
                link.target.address = target

        # credit only once it is attached: see test_credit_for_a_refused_link_ends_the_session
        return self.blocking.create_receiver(
            address, name=self._name(), credit=0, dynamic=address is None, options=[_Apply(change)]
        )

    def _name(self) -> str:
        """proton's own would be the same for two links to one address."""
        self._links += 1
        return f"raw.{self._links}"

    def send(self, sender: Any, body: Any = "x", **fields: Any) -> tuple[str, str | None]:
        """Outcome and condition; "detached" when the link went instead."""
        delivery = sender.send(Message(body=body, **fields))
        try:
            self.blocking.wait(lambda: delivery.remote_state, timeout=TIMEOUT)
        except LinkDetached:
            return "detached", sender.remote_condition.name
        condition = delivery.remote.condition
        return _NAMES[delivery.remote_state], condition.name if condition else None

    def credit_is(self, sender: Any, test: Any) -> bool:
        """Wait until the credit of a sender is so."""
        self.blocking.wait(lambda: test(sender.credit), timeout=TIMEOUT)
        return True

    def refusal(self, attach: Any, *arguments: Any) -> str:
        """The condition with which a link is refused."""
        try:
            attach(*arguments)
        except LinkDetached as refused:
            return str(refused.condition)
        raise AssertionError("the link was not refused")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self.blocking.close()
