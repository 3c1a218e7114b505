#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""proton's C functions, called with the interpreter's lock held.

cffi gives the lock up around every call.  To a function of a tenth of a microsecond that is
an invitation: another thread that waits for the interpreter takes it, or wakes in vain, some
twenty times for each message.  ctypes can call the same functions at their addresses and keep
the lock.  Signatures are taken from cffi's, which were compiled from proton's headers; what
can't be translated makes the import fail, and ``publicpath`` serves instead.  I/O thread only.
"""

import ctypes
from typing import Any

from cproton_ffi import ffi, lib


class Octets(ctypes.Structure):
    """``pn_bytes_t``: size and start; keeps no reference to the bytes."""

    _fields_ = (("size", ctypes.c_size_t), ("start", ctypes.c_char_p))


_TYPES: dict[str, Any] = {
    "void": None, "_Bool": ctypes.c_bool, "int": ctypes.c_int, "size_t": ctypes.c_size_t,
    "ssize_t": ctypes.c_ssize_t, "uint64_t": ctypes.c_uint64, "pn_delivery_tag_t": Octets,
    "pn_bytes_t": Octets, "struct pn_bytes_t": Octets,
}


def _translated(kind: Any) -> Any:
    if kind.kind == "pointer":
        return ctypes.c_void_p
    if kind.kind == "enum":
        return ctypes.c_int
    try:
        return _TYPES[kind.cname]
    except KeyError:
        raise ImportError(f"proton's C functions use a type that is not known: {kind}") from None


def held(name: str) -> Any:
    """The function of that name: pointers are integers, NULL is None, ``bytes`` go as they are.

    :raises ImportError: this proton has no such function, or an unknown signature
    """
    try:
        function = getattr(lib, name)
    except AttributeError:
        raise ImportError(f"this proton has no {name}") from None
    signature = ffi.typeof(function)
    prototype = ctypes.PYFUNCTYPE(_translated(signature.result),
                                  *[_translated(kind) for kind in signature.args])
    return prototype(address(ffi.addressof(lib, name)))


def address(pointer: Any) -> int:
    """What a pointer of cffi's points to."""
    return int(ffi.cast("uintptr_t", pointer))


def _constructor() -> Any:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t)
    make = prototype(("PyBytes_FromStringAndSize", ctypes.pythonapi))
    return lambda size: make(None, size)


#: ``bytes`` of a size to be filled at once by a C function, without a copy (Python's C API)
new_bytes = _constructor()
