# SPDX-License-Identifier: Apache-2.0

"""A loader that fills a queue of RabbitMQ over AMQP 0.9.1 with copies of a driver's message."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import amqp

from .copies import Copies

_PAUSE = 0.02


def load(url: str, source: str, queue: str, first: int, count: int, timeout: float) -> None:
    """Take the message in ``source``, and put copies of it into ``queue``.

    :param first: number of the first copy
    :param timeout: limit for the arrival of the message, and for each operation of the connection,
        seconds
    :raises RuntimeError: no message has come into ``source`` in time
    """
    parts = urlsplit(url)
    connection = amqp.Connection(
        f"{parts.hostname}:{parts.port or 5672}",
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        connect_timeout=timeout,
        read_timeout=timeout,
        write_timeout=timeout,
    )
    connection.connect()
    channel = connection.channel()
    body, properties = _fetch(channel, source, timeout)
    request = json.loads(json.loads(body)["oslo.message"])
    copy = Copies(body, request["_unique_id"].encode()).copy
    for number in range(first, first + count):
        channel.basic_publish(amqp.Message(copy(number), **properties), "", queue)
    channel.queue_declare(queue, passive=True)  # the broker answers after it has taken all copies
    connection.close()


def _fetch(channel: Any, source: str, timeout: float) -> tuple[bytes, dict[str, Any]]:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        message = channel.basic_get(source, no_ack=True)
        if message is not None:
            body = message.body
            return body if isinstance(body, bytes) else body.encode(), dict(message.properties)
        time.sleep(_PAUSE)
    raise RuntimeError(f"no message comes into {source}")
