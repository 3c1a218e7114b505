# SPDX-License-Identifier: Apache-2.0

"""The channel between a worker and its parent, in lines of JSON: orders come in, events go out."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any


class Channel:
    """A worker's end of the channel.

    Orders come by standard input, so that the list of processes shows no password. Standard input
    ends when the parent ends, whatever the reason; then this process ends at once. Events go to the
    original standard output; everything that other code prints goes to standard error.
    """

    def __init__(self) -> None:
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, event: str, **fields: Any) -> None:
        """Send one event. Any thread."""
        with self._lock:
            self._events.write(json.dumps({"event": event, **fields}) + "\n")
            self._events.flush()

    def orders(self) -> Iterator[dict[str, Any]]:
        """Yield the orders as they come, without end."""
        while True:
            yield self._orders.get()

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        os._exit(0)
