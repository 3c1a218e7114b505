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

"""The windows of a session (AMQP 1.0, 2.5.6), which proton's Python binding leaves out.

The functions are documented ones of proton's C library.  Where a binding does not export them,
the incoming window is set in bytes, as the Python API has it, and the peer's counts as open.
I/O thread only.
"""

import ctypes
from typing import Any

import cproton_ffi

from amqp1_driver.protocol.held import address

_COUNT = ctypes.c_uint32


def _exported(name: str, result: Any, *arguments: Any) -> Any:
    """A C function that the binding's library contains but does not name; None if it does not."""
    try:
        function = getattr(ctypes.PyDLL(cproton_ffi.__file__), name)
    except (OSError, AttributeError):
        return None
    function.restype = result
    function.argtypes = [ctypes.c_void_p, *arguments]
    return function


_set_incoming = _exported("pn_session_set_incoming_window_and_lwm", ctypes.c_int, _COUNT, _COUNT)
_remote = _exported("pn_session_remote_incoming_window", _COUNT)
_outgoing = _exported("pn_session_outgoing_bytes", ctypes.c_size_t)


def bound(session: Any, frames: int, max_frame: int) -> None:
    """Let the peer send so many frames ahead on a session that is not open yet.

    :param session: of proton's
    :param max_frame: bytes, what we have offered
    """
    if _set_incoming is None or _set_incoming(address(session._impl), frames, 0) < 0:
        session.incoming_capacity = frames * max_frame


def addresses() -> dict[str, int]:
    """Where the functions are that tell the window, by name; 0 for one that there is not."""
    found = {"pn_session_remote_incoming_window": _remote, "pn_session_outgoing_bytes": _outgoing}
    return {name: (ctypes.cast(function, ctypes.c_void_p).value or 0) if function else 0
            for name, function in found.items()}


class OutgoingWindow:
    """How many frames more the peer takes on a session.

    Proton tells how many it would take after those that are sent already; what proton was given
    since is counted here, until it is sent.

    :param session: of proton's
    :param frame: bytes of a message that fit into one of the peer's frames
    """

    def __init__(self, session: Any, frame: int) -> None:
        #: its address
        self.session = address(session._impl)
        #: bytes
        self.frame = frame
        #: frames that proton was given and has not sent, or not said so
        self.given = 0

    def has_room(self) -> bool:
        """Whether a message would leave now, at least its first frame."""
        if _remote is None or _outgoing is None:
            return True
        if self.given and not _outgoing(self.session):
            self.given = 0
        return bool(_remote(self.session) > self.given)
