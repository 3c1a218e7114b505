# SPDX-License-Identifier: Apache-2.0
"""What the services' messaging does, as inside/sitecustomize.py tells it."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Container
from pathlib import Path
from typing import Any

#: bytes; one event is a few hundred
_LARGEST = 65536
#: the kernel keeps this much for a reader that is slow, bytes
_BUFFER = 8 * 1024 * 1024


class Recorder:
    """Reads events on a thread of its own until :meth:`close`.

    :param path: of the socket that it makes
    :param journal: file that keeps every event, one JSON object a line
    """

    def __init__(self, path: Path, journal: Path) -> None:
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind(str(path))
        self._path = path
        self._journal = journal.open("wb")
        self._thread = threading.Thread(target=self._read, name="recorder", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while datagram := self._socket.recv(_LARGEST):
            self._journal.write(datagram + b"\n")
            with self._lock:
                self._events.append(json.loads(datagram))

    def mark(self) -> int:
        """Return the number of events so far: where a step begins."""
        with self._lock:
            return len(self._events)

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the events from that number on."""
        with self._lock:
            return self._events[since:]

    def close(self) -> None:
        """End the thread and remove the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", str(self._path))
        self._thread.join(10)
        self._socket.close()
        self._journal.close()
        self._path.unlink(missing_ok=True)


def requests(events: list[dict[str, Any]]) -> Counter[str]:
    """Return how many requests of each kind were sent: "call", "cast to a server", "fanout", ..."""
    return Counter(event["kind"] for event in events if event["event"] == "sent")


def failures(events: list[dict[str, Any]]) -> list[str]:
    """Return one line for each request whose sending failed, or that had no reply in time."""
    return [
        f"{event['service']}: {event['kind']} of {event['method']} to {event['topic']} "
        f"failed after {event['seconds']:.1f} s: {event['error']}"
        for event in events
        if event["event"] == "sent" and event["error"] in _MESSAGING
    ]


#: exceptions of oslo.messaging; others are the executed method's own
_MESSAGING = frozenset(("MessagingTimeout", "MessageDeliveryFailure", "MessagingException"))


def executed_twice(events: list[dict[str, Any]]) -> list[str]:
    """Return one line for each request that ran more often than it was sent to be run.

    A fanout runs once in each process that serves its topic, any other request once.
    """
    fanouts = {e["method"] for e in events if e["event"] == "sent" and e["kind"] == "fanout"}
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["event"] == "executed" and event["id"]:
            runs[event["id"]].append(event)
    lines = []
    for identity, found in runs.items():
        method = found[0]["method"]
        servers = [(event["service"], event["pid"]) for event in found]
        if len(found) > (len(set(servers)) if method in fanouts else 1):
            names = ", ".join(sorted(service for service, _ in servers))
            lines.append(f"{method} (message {identity}) ran {len(found)} times: {names}")
    return lines


def unreceived(
    events: list[dict[str, Any]], received: Container[str], outages: list[tuple[float, float]]
) -> tuple[list[str], list[str]]:
    """Return the event types of the notifications that were lost, and of those that failed.

    A notification has failed, and is not lost, if its sender was told so in an outage.

    :param received: message ids
    :param outages: begin and end of each, seconds since the epoch
    """
    told = {
        event["id"]
        for event in events
        if event["event"] == "refused"
        and any(begin <= event["at"] <= end for begin, end in outages)
    }
    missing = {i: kind for i, kind in notified(events).items() if i not in received}
    return (
        sorted(kind for identity, kind in missing.items() if identity not in told),
        sorted(kind for identity, kind in missing.items() if identity in told),
    )


def notified(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the event type of each notification by its message_id."""
    return {event["id"]: event["type"] for event in events if event["event"] == "notified"}
