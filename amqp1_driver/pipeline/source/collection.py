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

"""A spool and the collector that fills it, as the planning process has them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool, SpoolError

LOG = logging.getLogger(__name__)

#: seconds
STOP_TIMEOUT = 5.0
#: seconds between looks whether the links are idle
LOOK = 0.05
#: seconds between two writings of the status file
REPORT = 1.0


class Collecting(Protocol):
    """What takes messages from the bus, appends them to the spool and acknowledges them."""

    @property
    def error(self) -> BaseException | None:
        """Why it has given up; None while it has not."""

    def start(self) -> None:
        """Begin to connect; does not wait."""

    def stop(self, timeout: float) -> object:
        """Take no more and disconnect; what was not appended goes back to the bus."""

    def idle(self) -> bool:
        """Nothing is buffered, and nothing more comes or may come now."""

    def wait_for(self, high: int, timeout: float) -> bool:
        """Wait until row ``high`` is durable or collecting has failed; returns whether it is."""

    def facts(self) -> dict[str, Any]:
        """For the status file."""


#: makes a collector that is not started
Factory = Callable[[SourceOptions, Spool], Collecting]


class CollectorFailed(RuntimeError):
    """The collector has given up; the cause says why."""


class Collection:
    """Opens the spool, which fences out others, and starts to collect.

    :raises SpoolError: the spool cannot be opened
    """

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self.options = options
        self.spool = Spool.open(options.spool_dir, options.limits())
        #: when the status file was written last
        self._reported = float("-inf")
        try:
            self._collector = factory(options, self.spool)
        except BaseException:
            self.spool.close()
            raise
        try:
            self._collector.start()
            self.report()
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """:raises CollectorFailed: it has"""
        error = self._collector.error
        if error is not None:
            raise CollectorFailed(f"messages can no more be taken from the bus: "
                                  f"{type(error).__name__}: {error}") from error

    def wait(self, seq: int, timeout: float) -> None:
        """Wait for a row, at most ``timeout`` seconds.

        :raises CollectorFailed: it has
        """
        self._collector.wait_for(seq, timeout)
        self.check()

    @property
    def full(self) -> bool:
        """Links that are idle are so because the spool takes no more."""
        # what is buffered while the links are idle is too large for what room there is
        return not self.spool.room() or bool(self._collector.facts().get("buffered"))

    def drain(self, within: float | None = None) -> int:
        """Wait until nothing more is at hand, or the spool is full, or drainMaxMs have passed.

        :param within: seconds, instead of drainMaxMs
        :returns: the last row that is durable then
        :raises CollectorFailed: it has, or the bus could not be reached in all that time
        """
        within = self.options.drain_max if within is None else within
        deadline = time.monotonic() + within
        while not self._collector.idle():
            self.check()
            self.report()
            left = deadline - time.monotonic()
            if left <= 0:
                self._check_reached(within)
                break
            self.wait(self.spool.high + 1, min(LOOK, left))
        self.check()
        return self.spool.high

    def _check_reached(self, within: float) -> None:
        facts = self._collector.facts()
        if not facts.get("attached", True):
            raise CollectorFailed(f"the bus could not be reached within "
                                  f"{within:g} s: {facts.get('trouble')}")

    def report(self) -> None:
        """Write the status file, at most once a second. That it cannot be written stops nothing.

        :raises Fenced: another process has opened the spool
        """
        now = time.monotonic()
        if now - self._reported < REPORT:
            return
        self._reported = now
        try:
            self.spool.status(self._collector.facts())
        except OSError as error:
            LOG.warning("The status file of the spool cannot be written: %s", error)

    def close(self) -> None:
        """Stop collecting and close the spool."""
        try:
            self._collector.stop(STOP_TIMEOUT)
            self._reported = float("-inf")
            self.report()
        except SpoolError as error:
            LOG.info("The last status of the spool was not written: %s", error)
        finally:
            self.spool.close()
