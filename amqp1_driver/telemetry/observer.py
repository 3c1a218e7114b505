#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Where the driver tells what happens; one for each connection, and none when nobody listens."""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.telemetry.events import (
    CONNECTION,
    LINK,
    NONE,
    Changed,
    Event,
    Origin,
    Resumed,
    Stalled,
)

LOG = logging.getLogger(__name__)


class Sink(Protocol):
    """Where events go.  Called on any thread; neither blocks nor raises."""

    def emit(self, event: Event) -> None: ...


class Observer:
    """Makes events and gives them to a sink.  Any thread; never raises.

    A sink that raises all the same is kept, and named in the log the first time.

    :param sink: where events go
    :param origin: whose they are
    :param now: the clock of the driver's loop, seconds
    :param wall_clock: seconds since 1970
    """

    def __init__(self, sink: Sink, origin: Origin, now: Callable[[], float],
                 wall_clock: Callable[[], float]) -> None:
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
        """The connection has another state."""
        self.tell(Changed, self.origin, self.wall_clock(), CONNECTION, host, None, state,
                  name_of(error))

    def link(self, host: str, address: str | None, state: str,
             error: BaseException | None = None) -> None:
        """A link has another state."""
        self.tell(Changed, self.origin, self.wall_clock(), LINK, host, address, state,
                  name_of(error))

    def stalled(self, host: str, address: str | None, credit: int | None) -> None:
        """No credit is left: see :class:`Stalled`."""
        self.tell(Stalled, self.origin, self.wall_clock(), host, address, credit)

    def resumed(self, host: str, address: str | None, total: float, credit: int | None,
                ended: bool) -> None:
        """A stall is over after ``total`` seconds; ``ended``: and nothing goes on."""
        self.tell(Resumed, self.origin, self.wall_clock(), host, address, total, credit,
                  NONE if ended else None)


def name_of(error: BaseException | None) -> str | None:
    """The condition that the peer gave, otherwise the name of the class."""
    if error is None:
        return None
    condition = getattr(error, "condition", None)
    return str(condition) if condition else type(error).__name__
