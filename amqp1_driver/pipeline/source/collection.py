# SPDX-License-Identifier: Apache-2.0

"""A spool and the collector that fills it, in the process in which Spark plans."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool, SpoolError

LOG = logging.getLogger(__name__)

#: seconds that the collector has to stop
STOP_TIMEOUT = 5.0
#: seconds between two checks whether the links are idle
LOOK = 0.05
#: seconds between two writes of the status file, at least
REPORT = 1.0


class Collecting(Protocol):
    """A collector, which moves messages from the bus to the spool, then acknowledges them."""

    @property
    def error(self) -> BaseException | None:
        """Return why the collector has failed; None if it has not."""

    def start(self) -> None:
        """Begin to connect, without waiting."""

    def stop(self, timeout: float) -> object:
        """Stop taking messages, and disconnect; messages not appended go back to the bus.

        :param timeout: seconds
        """

    def idle(self) -> bool:
        """Return whether nothing more comes now: the links are idle, or the spool takes no more."""

    def wait_for(self, high: int, timeout: float) -> bool:
        """Wait until row ``high`` is durable or the collector has failed.

        :param timeout: seconds
        :returns: whether the row is durable
        """

    def facts(self) -> dict[str, Any]:
        """Return counters and the state of the links, for the status file."""


#: function that makes a collector without starting it
Factory = Callable[[SourceOptions, Spool], Collecting]


class CollectorFailed(RuntimeError):
    """The failure of a collector; the text says why."""


class Collection:
    """An open spool and its running collector; opening the spool fences out other processes.

    :raises SpoolError: the spool cannot be opened
    """

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self.options = options
        self.spool = Spool.open(options.spool_dir, options.limits())
        #: time of the last write of the status file, by the monotonic clock
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
        """Raise an error if the collector has failed.

        :raises CollectorFailed: the collector has failed
        """
        error = self._collector.error
        if error is not None:
            raise CollectorFailed(
                f"messages can no more be taken from the bus: {type(error).__name__}: {error}"
            ) from error

    def wait(self, seq: int, timeout: float) -> None:
        """Wait until row ``seq`` is durable, at most ``timeout`` seconds.

        :raises CollectorFailed: the collector has failed
        """
        self._collector.wait_for(seq, timeout)
        self.check()

    @property
    def full(self) -> bool:
        """Return whether idle links are idle because the spool takes no more."""
        # A message that stays buffered while the links are idle is too large for the room left.
        return not self.spool.room() or bool(self._collector.facts().get("buffered"))

    def drain(self, within: float | None = None) -> int:
        """Wait until the links are idle, the spool is full, or drainMaxMs have passed.

        :param within: seconds, instead of drainMaxMs
        :returns: the last durable row at that time
        :raises CollectorFailed: the collector has failed, or its links are not attached when the
            time is over
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
            raise CollectorFailed(
                f"the bus could not be reached within {within:g} s: {facts.get('trouble')}"
            )

    def report(self) -> None:
        """Write the status file, at most once a second; log a warning if that is impossible.

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
