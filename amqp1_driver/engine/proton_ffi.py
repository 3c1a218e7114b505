# SPDX-License-Identifier: Apache-2.0

"""Addresses in proton's C library, which the driver needs beside proton's Python API."""

from typing import Any

from cproton_ffi import ffi


def address(pointer: Any) -> int:
    """Return the address in a pointer of cffi's."""
    return int(ffi.cast("uintptr_t", pointer))
