# SPDX-License-Identifier: Apache-2.0

"""A client on proton that does one task on a RabbitMQ node and ends. One thread."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import proton.handlers
import proton.reactor


def address(kind: str, name: str) -> str:
    """Return the address of a queue or an exchange, or its path in management requests."""
    return f"/{kind}/{quote(name, safe='')}"


class Brief(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """A client that connects, does its task, and closes the connection.

    :param timeout: seconds without progress, after which the client fails
    :param prefetch: credit of its receivers; 0: the task grants the credit
    """

    def __init__(self, url: str, timeout: float, prefetch: int = 0) -> None:
        super().__init__(prefetch=prefetch, auto_settle=True)
        self.connection: Any = None
        self._url = url
        self._timeout = timeout
        self._timer: Any = None
        self._steps = self._seen = 0
        self._trouble: str | None = None

    def run(self) -> None:
        """Do the task.

        :raises RuntimeError: the task failed
        """
        proton.reactor.Container(self).run()
        if self._trouble is not None:
            raise RuntimeError(self._trouble)

    def doing(self) -> str:
        """Return a description of the current step, for errors."""
        raise NotImplementedError

    def on_start(self, event: Any) -> None:
        """Connect, and start the timer."""
        self._timer = event.container.schedule(self._timeout, self)
        self.connection = event.container.connect(self._url, reconnect=False)

    def on_timer_task(self, event: Any) -> None:
        """Fail if there was no progress since the last check."""
        if self._seen == self._steps:
            what = "no progress" if self._steps else "not done"
            self.finish(f"{what} in {self._timeout:g} s")
            return
        self._seen = self._steps
        self._timer = event.container.schedule(self._timeout, self)

    def progress(self) -> None:
        """Note that there is progress."""
        self._steps += 1

    def finish(self, trouble: str | None = None) -> None:
        """Close the connection.

        :param trouble: why the task failed; None: it succeeded
        """
        if trouble is not None and self._trouble is None:
            self._trouble = f"{self.doing()}: {trouble}"
        self._timer.cancel()
        self.connection.close()

    def on_transport_error(self, event: Any) -> None:
        """Fail: the connection is lost, or the broker did not accept it."""
        self.finish(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        """Fail: the broker detached the link with an error."""
        self.finish(str(event.link.remote_condition))

    def on_session_error(self, event: Any) -> None:
        """Fail: the broker ended the session with an error."""
        self.finish(str(event.session.remote_condition))

    def on_connection_error(self, event: Any) -> None:
        """Fail: the broker closed the connection with an error."""
        self.finish(str(event.connection.remote_condition))
