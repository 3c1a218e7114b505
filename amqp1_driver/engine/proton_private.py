# SPDX-License-Identifier: Apache-2.0

"""The parts of proton that the engine uses besides proton's documented Python API.

proton's Python binding is made with cffi. Its module ``cproton_ffi`` and the attribute ``_impl`` of
its objects are not documented; the C functions behind them are documented. A test asserts that all
these parts exist.
"""

import ctypes
from typing import Any

import cproton_ffi
import proton
from cproton_ffi import ffi, lib

#: constants of proton: type of an event of a delivery, of a Flow frame, of pending output; state of
#: an accepted delivery
CONSTANTS = (lib.PN_DELIVERY, lib.PN_LINK_FLOW, lib.PN_TRANSPORT, lib.PN_ACCEPTED)


def address(wrapper: Any) -> int:
    """Return the address of the C object of one of proton's Python objects."""
    return int(ffi.cast("uintptr_t", wrapper._impl))


def delivery_at(address: int) -> Any:
    """Return proton's delivery at an address."""
    return proton.Delivery.wrap(ffi.cast("pn_delivery_t *", address))


def event_at(address: int) -> Any:
    """Return proton's event at an address."""
    return proton.Event.wrap(ffi.cast("pn_event_t *", address))


def buffer(size: int) -> tuple[memoryview, int]:
    """Return new memory as a view that keeps it, and its address.

    :param size: bytes
    """
    memory = ffi.new("char[]", size)
    return memoryview(ffi.buffer(memory)), int(ffi.cast("uintptr_t", memory))


def function_address(name: str, signature: str) -> int:
    """Return the address of one of proton's C functions.

    :param signature: in the notation of cffi
    :raises ImportError: proton has no such function, or another signature for it
    """
    if (ffi.offsetof("pn_bytes_t", "size"), ffi.offsetof("pn_bytes_t", "start")) != (0, 8):
        raise ImportError("this proton has another pn_bytes_t")
    function = getattr(lib, name, None)
    if function is None or ffi.typeof(function).cname != signature:
        raise ImportError(f"this proton has another {name}")
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, name)))


def exported(name: str, result: Any, *arguments: Any) -> Any:
    """Return a C function that the binding's library exports, though Python's API lacks it.

    The function keeps the interpreter's lock.

    :param result: ctypes type of the result
    :param arguments: ctypes types of the arguments after the first, which is a pointer
    :returns: None if the library does not export the function
    """
    try:
        function = getattr(ctypes.PyDLL(cproton_ffi.__file__), name)
    except (OSError, AttributeError):
        return None
    function.restype = result
    function.argtypes = [ctypes.c_void_p, *arguments]
    return function
