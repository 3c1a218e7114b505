# SPDX-License-Identifier: Apache-2.0


"""The interface of provisioners: declare a node, or put a token for it, before a link is opened.

Lives on the I/O thread.
"""

from collections.abc import Callable
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.addressing.servicebus import missing
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession

Done = Callable[[BaseException | None], None]


class Provisioner(Protocol):
    """A provisioner of nodes on one physical connection.  Lives on the I/O thread."""

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        """Open the links for requests on a physical connection.

        :param session: returns the session in which to open them
        """
        ...

    @property
    def blocked(self) -> bool:
        """Return whether the bus accepts no requests at present, so that declarations wait."""
        ...

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Make the declarations of nodes, or put tokens for them, unless that is done already.

        :param done: called once, with None after success, or with the error
        """
        ...

    def known(self, node: Node) -> bool:
        """Return whether the driver can open links to the node and send messages to it."""
        ...

    def forget(self, node: Node) -> None:
        """Mark a node that may have been deleted, so that :meth:`ensure` checks it again."""
        ...

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        """Call ``forgotten``, from now on, whenever a known declaration becomes unknown.

        :returns: False if this provisioner can't report that; then ask :meth:`known` for each
            message
        """
        ...

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete the queues that this process no longer needs and that the bus would keep.

        :param readers: how many of our links still read each node, 0 or 1
        :param done: called once; with False if the bus was too slow, otherwise with True
        """
        ...

    def connection_lost(self, cause: BaseException) -> None: ...


def ensure_then_attach(
    preparer: Provisioner | None, node: Node, attach: Callable[[], None]
) -> None:
    """Provision a node before its link is attached again: its queue may have been deleted.

    While the bus accepts no requests, or if provisioning fails, attach the link all the same.

    :param attach: attaches the link; called in every case
    """
    if preparer is None or not node.declare or preparer.blocked:
        attach()
        return
    preparer.forget(node)
    preparer.ensure(node.declare, lambda error: attach())


def predeclared(declare: tuple[Declaration, ...]) -> tuple[Entity, ...]:
    """Return the declarations that must exist already, since AMQP has no means to create them."""
    return tuple(d for d in declare if isinstance(d, Entity))


def missing_entities_error(
    error: exceptions.AmqpError, gone: tuple[Entity, ...], needed: tuple[Entity, ...] = ()
) -> exceptions.AmqpError | None:
    """Turn the peer's refusal of a link into an error that names the entities to create.

    :param gone: the missing entities
    :param needed: further entities that the operation uses, whether they exist or not
    :returns: None if ``gone`` is empty or the condition is not ``amqp:not-found``
    """
    if not gone or error.condition != "amqp:not-found":
        return None
    found = exceptions.LinkFailed(
        missing(gone, needed),
        host=error.host,
        address=error.address,
        condition=error.condition,
        description=error.description,
    )
    found.__cause__ = error
    return found
