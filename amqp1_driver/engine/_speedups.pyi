"""The module in C; its sources are in ``_speedups/``, see ``speedups``."""

from typing import Any

from amqp1_driver.codec import Encoded
from amqp1_driver.engine.deliveries import Connection, ReceivingLink, SendingLink
from amqp1_driver.engine.speedups import RareCases
from amqp1_driver.policy.outcome import Disposition, Outcome

#: proton function -> its signature in the notation of cffi, or None if proton's binding lacks it
FUNCTIONS: dict[str, str | None]

def bind(
    addresses: dict[str, int],
    constants: tuple[int, int, int, int],
    rare: RareCases,
    accepted: Outcome,
    done: Disposition,
    /,
) -> None:
    """Take the addresses of proton's functions; call this before all else.

    :param addresses: by name, of all of :data:`FUNCTIONS`; 0 for a function that proton's library
        lacks and that has no signature: the peer's window then always has room
    :param constants: PN_DELIVERY, PN_LINK_FLOW, PN_TRANSPORT, PN_ACCEPTED
    :param rare: handles all that is not a common case
    :param accepted: ``Outcome.ACCEPTED``
    :param done: the disposition of an accepted message
    :raises KeyError: an address is missing
    """

def pump(connection: Connection, /) -> bool:
    """Do the same as :meth:`ProtonDeliveries.pump`, and ignore links that are not registered."""

def push(connection: Connection, data: Any, /) -> None:
    """Do the same as :meth:`ProtonDeliveries.push`."""

def may_send(link: SendingLink, /) -> bool:
    """Do the same as :meth:`ProtonDeliveries.may_send`."""

def send(link: SendingLink, data: Encoded, settled: bool, /) -> int:
    """Do the same as :meth:`ProtonDeliveries.send`."""

def credit(link: SendingLink, /) -> int:
    """Do the same as :meth:`ProtonDeliveries.credit`."""

def flow(link: ReceivingLink, credit: int, /) -> None:
    """Do the same as :meth:`ProtonDeliveries.flow`."""

def settle(link: ReceivingLink, key: int, outcome: Outcome, /) -> bool:
    """Do the same as :meth:`ProtonDeliveries.settle`."""

def read(link: ReceivingLink, size: int, /) -> bytes:
    """Take ``size`` bytes of a message out of proton.

    :raises RuntimeError: proton has fewer bytes
    """

def fill(transport: int, memory: int, size: int, /) -> int:
    """Take output of proton into memory, up to ``size`` bytes.

    :param transport: address of proton's transport
    :param memory: address of the memory
    :returns: number of bytes; negative if there will be no more output
    """
