# SPDX-License-Identifier: Apache-2.0
"""The scenario: steps through the public APIs, each with its time and the requests it made."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.cloud import recorder
from tests.cloud.cloud import Cloud


class StepError(Exception):
    """Something is not as it has to be."""


@dataclass
class World:
    """What the steps hand on to each other.

    :param cloud: that they work on
    """

    cloud: Cloud
    #: id of the image that servers are booted from
    image: str = ""
    #: ids of the flavors
    small: str = ""
    large: str = ""
    #: id of the network that servers are on
    network: str = ""
    #: ids of the servers, in the order in which they were booted
    servers: list[str] = field(default_factory=list)
    #: when a host or the bus was down: begin and end, seconds since the epoch
    outages: list[tuple[float, float]] = field(default_factory=list)
    #: what a step has to say beside that it passed
    remarks: list[str] = field(default_factory=list)

    @property
    def api(self) -> Any:
        """Return openstacksdk's connection."""
        return self.cloud.api

    def wait(self, what: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Ask until it is so.

        :raises StepError: it is not so in time
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                raise StepError(f"not in {seconds:.0f} s: {what}")
            time.sleep(0.3)

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Note the time in which something is down on purpose."""
        begin = time.time()
        try:
            yield
        finally:
            self.outages.append((begin, time.time()))

    def remark(self, text: str) -> None:
        """Have a line in the report."""
        self.remarks.append(text)


Step = Callable[[World], None]


@dataclass
class Result:
    """How a step went."""

    name: str
    seconds: float
    #: number of requests of each kind, of all services
    requests: dict[str, int]
    #: by method
    methods: dict[str, int]
    notifications: int
    remarks: list[str]
    #: None if it passed
    error: str | None = None


def title(step: Step) -> str:
    """Return the first line of its docstring, which says what it does."""
    return (step.__doc__ or step.__name__).strip().splitlines()[0].rstrip(".")


def perform(world: World, step: Step) -> Result:
    """Take one step, whatever happens in it."""
    events = world.cloud.recorder
    mark, since, error = events.mark(), time.monotonic(), None
    world.remarks = []
    try:
        step(world)
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    found = events.events(mark)
    if ended := world.cloud.ended():
        error = f"{error or ''} these services have ended: {', '.join(ended)}"
    return Result(
        title(step),
        time.monotonic() - since,
        dict(recorder.requests(found)),
        dict(Counter(event["method"] for event in found if event["event"] == "sent")),
        sum(event["event"] == "notified" for event in found),
        world.remarks,
        error,
    )
