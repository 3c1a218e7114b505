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

"""The JSON inside the messages, and its compression.

Wire-compatible with the driver that oslo.messaging carried up to 15.x, so that both can
share a bus during an upgrade. A request or notification is an object with ``request``,
``context`` and, for monitored calls, ``call_monitor_timeout`` (seconds); a reply is one
with ``response`` or ``failure``; a heartbeat is a message with a null body.

Pure functions for application threads. DecodeError for whatever a peer got wrong.
"""

import json
import zlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from oslo_serialization import jsonutils

from amqp1_driver import compat
from amqp1_driver.exceptions import DecodeError

#: A compressed body may not grow beyond this many bytes.
MAX_DECOMPRESSED = 64 * 1024 * 1024

#: ``sys.exc_info()`` of what the server's method raised.
Failure = tuple[type[BaseException], BaseException, TracebackType | None]

_ENVELOPE_KEY = "oslo.message"
_ENVELOPE_BEGIN = (
    f'{{"request":{{"oslo.version":"{compat.ENVELOPE_VERSION}","oslo.message":"'
).encode()
_ENVELOPE_END = b'"},"context":'
_GZIP_WINDOW = 31  # zlib: the largest window, and a gzip header

# One encoder for all messages, with the fallback that jsonutils.dumps makes anew each time.
_encode = json.JSONEncoder(default=jsonutils.to_primitive, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class Request(NamedTuple):
    """A request or notification as the application sent it."""

    message: Any
    ctxt: dict[str, Any]
    client_timeout: float | None  # seconds between heartbeats that the caller bears


def dump_request(
    message: Any,
    ctxt: dict[str, Any],
    *,
    envelope: bool = False,
    call_monitor_timeout: float | None = None,
) -> bytes:
    """The body of a request.

    :param envelope: wrap the message as notifications of version 2.0 are.
    :param call_monitor_timeout: seconds, for calls that want heartbeats.
    :raises ValueError, TypeError: for what JSON cannot carry.
    """
    if envelope:
        return _dump_envelope(message, ctxt)
    data = {"request": message, "context": ctxt}
    if call_monitor_timeout is not None:
        data["call_monitor_timeout"] = call_monitor_timeout
    return _encode(data).encode()


def _dump_envelope(message: Any, ctxt: dict[str, Any]) -> bytes:
    """What ``_encode`` makes of oslo.messaging's envelope, without a second pass over each
    character of the message: in JSON text that is ASCII only these two are left to be escaped.

    ``bytes`` look for one character several times as fast as ``str`` do.
    """
    text = _encode(message).encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b"".join((_ENVELOPE_BEGIN, text, _ENVELOPE_END, _encode(ctxt).encode(), b"}"))


def _load(body: Any) -> dict[str, Any]:
    if not isinstance(body, bytes | memoryview):
        raise DecodeError(f"body is {type(body).__name__}, not text")
    try:
        data = _decode(str(body, "utf-8"))
    except (ValueError, RecursionError) as e:
        raise DecodeError(f"body is not JSON: {e}") from e
    if not isinstance(data, dict):
        raise DecodeError(f"body is a JSON {type(data).__name__}, not an object")
    return data


def load_request(body: Any) -> Request:
    """Undo ``dump_request``, envelope included. Raises DecodeError."""
    data = _load(body)
    if "request" not in data:
        raise DecodeError("body has no request")
    message = data["request"]
    if isinstance(message, dict) and _ENVELOPE_KEY in message:
        try:
            message = compat.deserialize_msg(message)
        except Exception as e:  # whatever upstream makes of a strange envelope
            raise DecodeError(f"bad envelope: {e}") from e
    ctxt = data.get("context")
    if ctxt is None:
        ctxt = {}
    if not isinstance(ctxt, dict):
        raise DecodeError(f"context is a JSON {type(ctxt).__name__}, not an object")
    timeout = data.get("call_monitor_timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise DecodeError("call_monitor_timeout is not a number")
    return Request(message, ctxt, timeout)


def dump_reply(reply: Any, failure: Failure | None) -> bytes:
    """The body of a reply, or of the exception that the method raised instead.

    :raises ValueError, TypeError: for what JSON cannot carry.
    """
    if failure is None:
        return _encode({"response": reply}).encode()
    return _encode({"failure": compat.serialize_remote_exception(failure)}).encode()


def load_reply(body: Any, allowed_exmods: Sequence[str]) -> Any:
    """The value in a reply; raises the exception in it if it carries one.

    :param allowed_exmods: modules whose exceptions may be made again here; others come
        out as oslo.messaging's RemoteError.
    :raises DecodeError: for a malformed reply.
    """
    data = _load(body)
    failure = data.get("failure")
    if failure is None:
        if "response" not in data:
            raise DecodeError("body has neither response nor failure")
        return data["response"]
    try:
        error = compat.deserialize_remote_exception(failure, allowed_exmods)
    except Exception as e:  # malformed, or the exception class refuses its arguments
        raise DecodeError(f"failure cannot be read: {e}") from e
    raise error


def compress(body: bytes, threshold: int) -> tuple[bytes, bool]:
    """The body, compressed when that is worth it, and whether it was (gzip, RFC 1952).

    :param threshold: bytes; a shorter body is left as it is.
    """
    if len(body) < threshold:
        return body, False
    packed = zlib.compress(body, wbits=_GZIP_WINDOW)
    return (packed, True) if len(packed) < len(body) else (body, False)


def decompress(body: Any, encoding: str | None, limit: int = MAX_DECOMPRESSED) -> Any:
    """Undo ``compress``, given the content-encoding of the message.

    :param limit: bytes; more than that is refused before it fills the memory.
    :raises DecodeError: unknown encoding, damaged or oversized data.
    """
    if not encoding or encoding == "identity":
        return body
    if encoding != "gzip" or not isinstance(body, bytes | memoryview):
        raise DecodeError(f"content-encoding {encoding!r} of a body of {type(body).__name__}")
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        data = stream.decompress(body, limit)
    except zlib.error as e:
        raise DecodeError(f"gzip body is damaged: {e}") from e
    if stream.unconsumed_tail:
        raise DecodeError(f"gzip body has more than {limit} bytes")
    if not stream.eof or stream.unused_data:
        raise DecodeError("gzip body is cut short or has something behind it")
    return data
