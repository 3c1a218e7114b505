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

"""How a worker and its parent talk: lines of JSON, orders one way and events the other."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any


class Channel:
    """A worker's end.

    Orders come by standard input, so that no password is seen in the list of processes; its end,
    which comes with the parent's whatever ended that, ends this process at once. Events go where
    standard output went; what anybody else prints goes to standard error.
    """

    def __init__(self) -> None:
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, event: str, **fields: Any) -> None:
        """One event. Any thread."""
        with self._lock:
            self._events.write(json.dumps({"event": event, **fields}) + "\n")
            self._events.flush()

    def orders(self) -> Iterator[dict[str, Any]]:
        """Orders as they come."""
        while True:
            yield self._orders.get()

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        os._exit(0)
