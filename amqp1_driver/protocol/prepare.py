# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What has to be done before links to a node are opened: declare it, or put a token for it."""

from collections.abc import Callable
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.addressing.servicebus import missing

Done = Callable[[BaseException | None], None]


class Preparer(Protocol):
    """On one physical connection.  Lives on the I/O thread."""

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Call ``done`` once with None when all is ready, or with the error."""
        ...

    def known(self, node: Node) -> bool:
        """Whether links to it can be opened, and messages sent."""
        ...

    def forget(self, node: Node) -> None:
        """It may have gone: make sure again."""
        ...

    def tells(self, forgotten: Callable[[], object]) -> bool:
        """Have ``forgotten`` called whenever something that was known no longer is.

        :returns: False: that can't be told, it has to be asked for each message
        """
        ...

    def leave(self, nodes: tuple[Node, ...], readers: int,
              done: Callable[[bool], object]) -> None:
        """Nobody here needs them any more: delete what else would be left on the bus.

        :param readers: how many links of ours read each, 0 or 1
        """
        ...

    def connection_lost(self, cause: BaseException) -> None: ...


def make_sure(preparer: Preparer | None, node: Node, attach: Callable[[], None]) -> None:
    """Before a link is attached again: its queue may have been deleted."""
    if preparer is None or not node.declare:
        attach()
        return
    preparer.forget(node)
    preparer.ensure(node.declare, lambda error: attach())


def entities(declare: tuple[Declaration, ...]) -> tuple[Entity, ...]:
    """Those that nobody can make."""
    return tuple(d for d in declare if isinstance(d, Entity))


def nothing_there(error: exceptions.AmqpError, gone: tuple[Entity, ...],
                  needed: tuple[Entity, ...] = ()) -> exceptions.AmqpError | None:
    """The peer's refusal of a link as an error that says what has to be made; None if that
    would not help."""
    if not gone or error.condition != "amqp:not-found":
        return None
    found = exceptions.LinkFailed(missing(gone, needed), host=error.host, address=error.address,
                                  condition=error.condition, description=error.description)
    found.__cause__ = error
    return found
