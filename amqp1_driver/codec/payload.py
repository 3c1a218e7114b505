# SPDX-License-Identifier: Apache-2.0

"""The JSON in the bodies of messages, and its compression. For application threads.

The format is that of the driver that oslo.messaging carried up to 15.x, so that both can share a
bus during an upgrade. A request or notification is an object with ``request``, ``context`` and,
for monitored calls, ``call_monitor_timeout`` (seconds). A reply is an object with ``response`` or
``failure``. A heartbeat is a message with a null body.

Pure functions. They raise DecodeError for every mistake of a peer.
"""

import zlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from amqp1_driver import compat
from amqp1_driver.codec.json_text import dumps, loads
from amqp1_driver.exceptions import DecodeError

#: Longest ``call_monitor_timeout`` in seconds. The server sends heartbeats at intervals of at most
#: half of it, because oslo.messaging keeps a thread for each monitored call, and that thread checks
#: only at each heartbeat whether the call has ended.
MAX_MONITOR_TIMEOUT = 240
#: A compressed body may not grow beyond this many bytes.
MAX_DECOMPRESSED = 64 * 1024 * 1024

#: ``sys.exc_info()`` of the exception that the server's method raised.
Failure = tuple[type[BaseException], BaseException, TracebackType | None]

_VERSION_KEY, _ENVELOPE_KEY = "oslo.version", "oslo.message"
_GZIP_WINDOW = 31  # zlib: the largest window, and a gzip header
# Higher levels take up to three times as long for bodies of services, which shrink little further.
_GZIP_LEVEL = 3


class Request(NamedTuple):
    """A request or notification as the application sent it."""

    message: dict[str, Any]
    ctxt: dict[str, Any]
    client_timeout: float | None  # longest pause between heartbeats, seconds


def dump_request(
    message: Any,
    ctxt: Any,
    *,
    envelope: bool = False,
    call_monitor_timeout: float | None = None,
) -> bytes:
    """Return the body of a request.

    :param envelope: wrap the message in the envelope of notifications of version 2.0.
    :param call_monitor_timeout: seconds, for calls that want heartbeats.
    :raises ValueError: JSON cannot carry a value; or the message or context is not a JSON
        object, which every receiver would refuse.
    """
    try:
        if type(ctxt) is not dict and ctxt is not None:
            ctxt = _object("context", ctxt)
        if type(message) is not dict:
            message = _object("message", message)
        if envelope:
            message = {
                _VERSION_KEY: compat.ENVELOPE_VERSION,
                _ENVELOPE_KEY: dumps(message).decode(),
            }
        data = {"request": message, "context": ctxt}
        if call_monitor_timeout is not None:
            data["call_monitor_timeout"] = call_monitor_timeout
        return dumps(data)
    except _NoObject:
        raise
    except Exception as e:  # classes of the application may raise anything
        raise ValueError(f"it cannot be encoded as JSON: {e!r}") from e


class _NoObject(ValueError):
    pass


def _object(name: str, value: Any) -> dict[str, Any]:
    """Return the JSON object that represents an instance of a class of the application.

    :raises ValueError: the encoding is not a JSON object
    """
    if isinstance(value, dict):
        return value
    primitive = loads(dumps(value))
    if not isinstance(primitive, dict):
        raise _NoObject(f"a {name} of type {type(value).__name__} is no JSON object")
    return primitive


def _load(body: Any) -> dict[str, Any]:
    if type(body) is not bytes and type(body) is not memoryview:
        raise DecodeError(f"body is {type(body).__name__}, not text")
    try:
        data = loads(body)
    except (ValueError, RecursionError) as e:
        raise DecodeError(f"body is not JSON: {e}") from e
    if type(data) is not dict:
        raise DecodeError(f"body is a JSON {type(data).__name__}, not an object")
    return data


def load_request(body: Any) -> Request:
    """Decode the body of a request, with or without an envelope.

    :raises DecodeError: the body is malformed.
    """
    data = _load(body)
    if "request" not in data:
        raise DecodeError("body has no request")
    message = data["request"]
    if type(message) is dict and _ENVELOPE_KEY in message:
        try:
            message = _open_envelope(message)
        except Exception as e:  # oslo.messaging may raise anything for a strange envelope
            raise DecodeError(f"bad envelope: {e}") from e
    # oslo.messaging would fail on any other type before it acknowledges the message
    if type(message) is not dict:
        raise DecodeError(f"request is a JSON {type(message).__name__}, not an object")
    ctxt = data.get("context")
    if ctxt is None:
        ctxt = {}
    if type(ctxt) is not dict:
        raise DecodeError(f"context is a JSON {type(ctxt).__name__}, not an object")
    timeout = data.get("call_monitor_timeout")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
            raise DecodeError("call_monitor_timeout is not a number")
        timeout = min(timeout, MAX_MONITOR_TIMEOUT)
    return Request(message, ctxt, timeout)


def _open_envelope(envelope: dict[str, Any]) -> Any:
    """Return the message in an envelope.

    :raises Exception: of any kind: the envelope is malformed, or of another version
    """
    text = envelope[_ENVELOPE_KEY]
    if envelope.get(_VERSION_KEY) == compat.ENVELOPE_VERSION and type(text) is str:
        return loads(text)
    return compat.deserialize_msg(envelope)


def load_notification(body: Any) -> Request:
    """Decode the body of a notification, and check that its priority is text.

    oslo.messaging's listeners use the priority before they settle a message. A wrong priority
    would make a whole batch fail.

    :raises DecodeError: the body is malformed.
    """
    request = load_request(body)
    priority = request.message.get("priority", "")
    if not isinstance(priority, str):
        raise DecodeError(f"priority is a JSON {type(priority).__name__}, not text")
    return request


def dump_reply(reply: Any, failure: Failure | None) -> bytes:
    """Return the body of a reply with a value, or with the exception that the method raised.

    :raises ValueError: JSON cannot carry the value.
    :raises TypeError: JSON cannot carry the value.
    """
    if failure is None:
        return dumps({"response": reply})
    return dumps({"failure": compat.serialize_remote_exception(failure)})


def load_reply(body: Any, allowed_exmods: Sequence[str]) -> Any:
    """Return the value in a reply, or raise the exception that the reply carries.

    :param allowed_exmods: modules whose exceptions this function may recreate; an exception of
        another module becomes oslo.messaging's RemoteError.
    :raises DecodeError: the reply is malformed.
    """
    data = _load(body)
    if "failure" not in data or data["failure"] is None:
        if "response" not in data:
            raise DecodeError("body has neither response nor failure")
        return data["response"]
    failure = data["failure"]
    try:
        error = compat.deserialize_remote_exception(failure, allowed_exmods)
    except Exception as e:  # malformed, or the exception class refuses its arguments
        raise DecodeError(f"failure cannot be read: {e}") from e
    raise error


def compress(body: bytes, threshold: int) -> tuple[bytes, bool]:
    """Compress a body (gzip, RFC 1952) if that makes it shorter.

    :param threshold: bytes; a shorter body stays as it is.
    :returns: the body, and whether it is compressed.
    """
    if len(body) < threshold:
        return body, False
    packed = zlib.compress(body, _GZIP_LEVEL, wbits=_GZIP_WINDOW)
    return (packed, True) if len(packed) < len(body) else (body, False)


def decompress(body: Any, encoding: str | None, limit: int = MAX_DECOMPRESSED) -> Any:
    """Decompress a body according to the content-encoding of its message.

    :param limit: most bytes of the decompressed body, so that it cannot fill the memory. 0 stands
        for the default: there is always a limit.
    :raises DecodeError: unknown encoding, damaged or oversized data.
    """
    if not encoding or encoding == "identity":
        return body
    if encoding != "gzip" or not isinstance(body, bytes | memoryview):
        raise DecodeError(f"content-encoding {encoding!r} of a body of {type(body).__name__}")
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        data = stream.decompress(body, limit or MAX_DECOMPRESSED)
    except zlib.error as e:
        raise DecodeError(f"gzip body is damaged: {e}") from e
    if stream.unconsumed_tail:
        raise DecodeError(f"gzip body has more than {limit or MAX_DECOMPRESSED} bytes")
    if not stream.eof or stream.unused_data:
        raise DecodeError("gzip body is cut short or has something behind it")
    return data
