# SPDX-License-Identifier: Apache-2.0

"""The windows of a session (2.5.6), which proton's Python binding lacks; on the I/O thread.

This module calls documented functions of proton's C library. If the installed library does not
export them, the driver sets the incoming window in bytes through the Python API, and treats the
peer's window as open.
"""

import ctypes
from typing import Any

from amqp1_driver.engine.proton_private import address, exported

_COUNT = ctypes.c_uint32


_set_incoming = exported("pn_session_set_incoming_window_and_lwm", ctypes.c_int, _COUNT, _COUNT)
_remote = exported("pn_session_remote_incoming_window", _COUNT)
_outgoing = exported("pn_session_outgoing_bytes", ctypes.c_size_t)


def bound(session: Any, frames: int, max_frame: int) -> None:
    """Set the incoming window of a session that is not open yet.

    :param session: proton's session
    :param frames: number of frames that the peer may send ahead
    :param max_frame: bytes; the ``max-frame-size`` in our Open frame
    """
    if _set_incoming is None or _set_incoming(address(session), frames, 0) < 0:
        session.incoming_capacity = frames * max_frame


def address_of(name: str) -> int:
    """Return the address of a C function that reads the peer's window.

    :returns: 0 if the library does not export the function
    """
    function = {
        "pn_session_remote_incoming_window": _remote,
        "pn_session_outgoing_bytes": _outgoing,
    }[name]
    return (ctypes.cast(function, ctypes.c_void_p).value or 0) if function else 0


class OutgoingWindow:
    """The number of further frames that the peer accepts on a session.

    proton knows the peer's window after the frames that proton has written. This class counts the
    frames of messages that the driver has given to proton since, until proton has written them all.

    :param session: proton's session
    :param frame: bytes of a message that fit into one of the peer's frames
    """

    def __init__(self, session: Any, frame: int) -> None:
        #: address of proton's session
        self.session = address(session)
        #: bytes of a message that fit into one of the peer's frames
        self.frame = frame
        #: frames given to proton since it last had none left to write
        self.given = 0

    def has_room(self) -> bool:
        """Return whether at least the first frame of a message would go out now."""
        if _remote is None or _outgoing is None:
            return True
        if self.given and not _outgoing(self.session):
            self.given = 0
        return bool(_remote(self.session) > self.given)
