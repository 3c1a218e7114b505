"""The module in C; its sources are in ``_speedups/``, see ``speedups``."""

from collections.abc import Callable, Mapping
from typing import Any

def bind(
    addresses: Mapping[str, int],
    constants: tuple[int, int, int, int],
    incoming: Callable[[Any, int], object],
    outgoing: Callable[[Any, int], object],
    dispatch: Callable[[Any, int], object],
    accepted: object,
    /,
) -> None:
    """Once, before all else.

    :param addresses: of proton's functions by name; 0 for those of the session's window if the
        binding lacks them: there is always room then
    :param constants: PN_DELIVERY, PN_LINK_FLOW, PN_TRANSPORT, PN_ACCEPTED
    :param incoming: told, with link and delivery, what is not a whole message of 2 to 65536 bytes
    :param outgoing: told, with link and delivery, what is not PN_ACCEPTED
    :param dispatch: told, with connection and event, of all other events
    :param accepted: handed to link_outcome()
    :raises KeyError: an address is missing
    """

def pump(connection: Any, /) -> bool:
    """As ``fastpath.pump()``, for a connection whose collector is known."""

def may_send(link: Any, /) -> bool:
    """As ``fastpath.may_send()``."""

def send(link: Any, data: bytes, settled: bool, /) -> int:
    """As ``fastpath.send()``, with the interpreter's lock held: for less than 16 KiB."""

def credit(link: Any, /) -> int:
    """As ``fastpath.credit()``."""

def accept(link: Any, key: int, /) -> bool:
    """As ``fastpath.settle()`` with ACCEPTED."""

def flow(link: Any, credit: int, /) -> None:
    """As ``fastpath.flow()``."""

def push(transport: int, data: bytes, /) -> bool | None:
    """Bytes from the peer to proton.

    :returns: None: too many at once, none were taken. False: proton takes no more, ever
    """

def fill(transport: int, memory: int, size: int, /) -> int:
    """Take output from proton into memory, up to ``size`` bytes.

    :returns: how many there were, negative if none can come any more
    """
