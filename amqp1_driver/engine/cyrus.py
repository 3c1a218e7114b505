# SPDX-License-Identifier: Apache-2.0

"""The early loading of Cyrus SASL's plug-ins, once in a process; lives on the I/O thread.

Without this module Cyrus loads its plug-ins at proton's first SASL exchange. Cyrus treats a plug-in
that it can't open as missing. If the process has no free descriptor at that time, Cyrus finds no
plug-in, reports nothing and never looks again: every later connection of the process fails with
"no mechanism available". Therefore :func:`load` makes the first exchange itself, in memory, after
checking that enough descriptors are free.
"""

import os

import proton

#: descriptors that have to be free before loading; Cyrus uses four at a time
FREE_DESCRIPTORS = 16
#: a server's SASL header, followed by a sasl-mechanisms frame (5.3.3.1) that offers PLAIN
_OFFER = (
    b"AMQP\x03\x01\x00\x00\x00\x00\x00\x15\x02\x01\x00\x00\x00\x53\x40\xc0\x08\x01\xa3\x05PLAIN"
)
_loaded = False


def load() -> None:
    """Load the plug-ins, if this process has not loaded them yet.

    :raises OSError: the process is out of descriptors; Cyrus has loaded nothing, so a later call
        may succeed
    """
    global _loaded
    if _loaded:
        return
    spare: list[int] = []
    try:
        for _ in range(FREE_DESCRIPTORS):
            spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for descriptor in spare:
            os.close(descriptor)
    _exchange()
    _loaded = True


def _exchange() -> bool:
    """Start a SASL exchange, in memory, with an imaginary server that offers PLAIN.

    :returns: whether Cyrus has chosen a mechanism
    """
    connection, transport = proton.Connection(), proton.Transport(proton.Transport.CLIENT)
    connection.user, connection.password = "nobody", "nothing"
    sasl = transport.sasl()
    sasl.allow_insecure_mechs = True
    transport.bind(connection)
    transport.push(_OFFER)
    transport.pending()  # proton processes the offer when asked for output
    chosen = sasl.outcome is None
    transport.unbind()
    connection.free()
    return chosen
