# SPDX-License-Identifier: Apache-2.0

"""JSON text of Python values, and back: what the module ``json`` does, in less time.

msgspec writes and reads the usual values. All others, and all texts that msgspec refuses, are left
to ``json``, which accepts more: NaN, lone surrogates, keys that are no strings, classes of
applications. Without msgspec, ``json`` does all; without the module in C, it writes all.

Pure functions, for any thread.
"""

import json
from collections.abc import Callable
from typing import Any

from oslo_serialization import jsonutils

# One encoder for all values; jsonutils.dumps would make one anew for each value.
_write = json.JSONEncoder(default=jsonutils.to_primitive, separators=(",", ":")).encode
_read = json.JSONDecoder().decode

_write_plain: Callable[[Any], bytes] | None = None
_read_usual: Callable[[Any], Any] | None = None

try:
    import msgspec.json
except ImportError:  # the requirement is not installed
    pass
else:
    _read_usual = msgspec.json.Decoder().decode
    try:
        # msgspec has texts of its own for many types (bytes, datetime, enumerations, NaN), where
        # json asks to_primitive() or fails: only a look at the whole value tells.
        from amqp1_driver.codec._plain import is_plain
    except ImportError:  # it was installed without a compiler
        pass
    else:
        _write_plain = msgspec.json.Encoder().encode


def dumps(value: Any) -> bytes:
    """Return the JSON text of a value as UTF-8, without spaces.

    ``jsonutils.to_primitive`` converts the values of types that JSON does not have.

    :raises Exception: of any kind: JSON cannot carry the value, or a class of the application fails
    """
    if _write_plain is not None and is_plain(value):
        try:
            return _write_plain(value)
        except Exception:  # a lone surrogate; json escapes it
            pass
    return _write(value).encode()


def loads(text: bytes | memoryview | str) -> Any:
    """Return the value of a JSON text, which is UTF-8 if it is bytes.

    :raises ValueError: the text is malformed
    :raises RecursionError: it is nested too deeply
    """
    if _read_usual is not None:
        try:
            return _read_usual(text)
        except Exception:  # json accepts more, and its errors are the documented ones
            pass
    return _read(text if isinstance(text, str) else str(text, "utf-8"))
