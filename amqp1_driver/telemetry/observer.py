# SPDX-License-Identifier: Apache-2.0

"""The observer of a connection, which makes events for telemetry. For any thread.

Each connection has one observer, or none when telemetry is off.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.events import Event, Origin, Record

LOG = logging.getLogger(__name__)


class Sink(Protocol):
    """A receiver of events. Any thread calls it; it neither blocks nor raises."""

    def emit(self, event: Event) -> None: ...


class Observer:
    """A maker of events for a sink. For any thread; its methods never raise.

    If the sink raises nevertheless, the observer goes on using it, and logs only the first error.

    :param sink: receiver of the events
    :param origin: connection and process of the events
    :param now: clock of the driver's loop, seconds
    :param wall_clock: clock that counts seconds since 1970
    """

    def __init__(
        self, sink: Sink, origin: Origin, now: Callable[[], float], wall_clock: Callable[[], float]
    ) -> None:
        self.origin = origin
        self.now = now
        self.wall_clock = wall_clock
        self._sink = sink
        self._complained = False

    def tell(self, make: Callable[..., Event], *args: Any) -> None:
        """Give the sink the event that ``make(*args)`` returns."""
        try:
            self._sink.emit(make(*args))
        except Exception:
            if not self._complained:
                self._complained = True
                LOG.exception("Telemetry sink %r failed; this is not said again", self._sink)

    def connection(self, host: str, state: str, error: BaseException | None = None) -> None:
        """Report that the state of the connection has changed."""
        self._tell_record(events.CONNECTION, host, None, state=state, error=name_of(error))

    def link(
        self, host: str, address: str | None, state: str, error: BaseException | None = None
    ) -> None:
        """Report that the state of a link has changed."""
        self._tell_record(events.LINK, host, address, state=state, error=name_of(error))

    def stalled(self, host: str, address: str | None, credit: int | None) -> None:
        """Report the start of a stall: no credit is left.

        :param credit: credit limit of the subscription; None: messages wait to be sent
        """
        stage = events.CREDIT if credit is None else None
        self._tell_record(events.STALL, host, address, stage=stage, credit=credit)

    def resumed(
        self, host: str, address: str | None, total: float, credit: int | None, ended: bool
    ) -> None:
        """Report the end of a stall; each stall has one.

        :param total: duration of the stall, seconds
        :param credit: as for :meth:`stalled`
        :param ended: the stall ended without new credit: the link was lost, or no message waits
            any more
        """
        self._tell_record(
            events.RESUME,
            host,
            address,
            outcome=events.NONE if ended else None,
            stage=events.CREDIT if credit is None else None,
            total_us=round(total * 1e6),
            credit=credit,
        )

    def _tell_record(self, kind: str, host: str, address: str | None, **fields: Any) -> None:
        now = round(self.wall_clock() * 1e6)
        self.tell(partial(Record, now, kind, *self.origin, host, address, **fields))


def name_of(error: BaseException | None) -> str | None:
    """Return the peer's condition, else the name of the error's class; None without an error."""
    if error is None:
        return None
    condition = getattr(error, "condition", None)
    return str(condition) if condition else type(error).__name__
