# SPDX-License-Identifier: Apache-2.0

"""proton's C functions, called with the interpreter's lock held; on the I/O thread.

cffi gives up the interpreter's lock around every call, even if the function takes only a tenth of a
microsecond. About twenty times per message, another thread that waits for the lock then takes the
lock, or wakes up and finds it taken again. ctypes can call the same functions at their addresses
and keep the lock. This module translates cffi's signatures, which cffi compiled from proton's
headers. If it cannot translate one, the import fails and the engine uses ``deliveries``.
"""

import ctypes
from typing import Any

from cproton_ffi import ffi, lib


class Octets(ctypes.Structure):
    """A ``pn_bytes_t``: size and start; keeps no reference to the bytes."""

    _fields_ = (("size", ctypes.c_size_t), ("start", ctypes.c_char_p))


_TYPES: dict[str, Any] = {
    "void": None,
    "_Bool": ctypes.c_bool,
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "ssize_t": ctypes.c_ssize_t,
    "uint64_t": ctypes.c_uint64,
    "pn_delivery_tag_t": Octets,
    "pn_bytes_t": Octets,
    "struct pn_bytes_t": Octets,
}


def _translated(kind: Any) -> Any:
    """Return the ctypes type for a type of cffi.

    :raises ImportError: there is none
    """
    if kind.kind == "pointer":
        return ctypes.c_void_p
    if kind.kind == "enum":
        return ctypes.c_int
    try:
        return _TYPES[kind.cname]
    except KeyError:
        raise ImportError(f"proton's C functions use a type that is not known: {kind}") from None


def held(name: str) -> Any:
    """Return a proton function that keeps the interpreter's lock while it runs.

    A pointer is an integer in Python, and NULL is None; an argument may also be ``bytes``.

    :param name: the C name of the function
    :raises ImportError: this proton has no such function, or the signature has an unknown type
    """
    try:
        function = getattr(lib, name)
    except AttributeError:
        raise ImportError(f"this proton has no {name}") from None
    signature = ffi.typeof(function)
    prototype = ctypes.PYFUNCTYPE(
        _translated(signature.result), *[_translated(kind) for kind in signature.args]
    )
    return prototype(address(ffi.addressof(lib, name)))


def address(pointer: Any) -> int:
    """Return the address in a pointer of cffi's."""
    return int(ffi.cast("uintptr_t", pointer))


def _constructor() -> Any:
    """Return a function that makes uninitialized ``bytes`` of a given size."""
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t)
    make = prototype(("PyBytes_FromStringAndSize", ctypes.pythonapi))
    return lambda size: make(None, size)


#: makes ``bytes`` of a given size that a C function has to fill at once; saves a copy (Python's C
#: API)
new_bytes = _constructor()
