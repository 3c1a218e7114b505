# SPDX-License-Identifier: Apache-2.0

"""A cloud of any size: life cycles of instances with their ports and volumes, from a seed.

The simulation runs on the caller's thread, and makes events in the order of their times. It keeps
only the resources that are alive, whose number has a bound, and those deleted since the last audit:
a hundred million notifications take no more memory than those of two days.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import random
import uuid
from collections.abc import Generator, Iterator

from amqp1_driver.pipeline.generate import payloads as p
from amqp1_driver.pipeline.generate.notification import Notification

FLAVORS = (
    p.Flavor("tiny", 1, 512, 1),
    p.Flavor("small", 1, 2048, 20),
    p.Flavor("medium", 2, 4096, 40),
    p.Flavor("large", 4, 8192, 80, 20),
)
#: least bound of the instances alive at one time; at its bound the simulation creates no more. A
#: rate that needs more instances has a bound of twice as many as it needs
MOST_ALIVE = 2000
#: mean hours that an instance lives
_LIFE_HOURS = 10.0
#: notifications about one instance, its port and its volume, on average; they determine how often
#: the simulation creates an instance
_PER_LIFE = 13.0
_ERROR = 0.03
_LOST_END = 0.005
_LOST_EXISTS = 0.01
_AUDIT = datetime.timedelta(days=1)

#: a life yields seconds to wait, or a notification
_Life = Generator["float | Notification", None, None]


def notifications(
    seed: int,
    count: int,
    begin: datetime.datetime,
    per_day: int = 20_000,
    tenants: int = 20,
    hosts: int = 40,
    prefix: str = "n-",
) -> Iterator[Notification]:
    """Yield ``count`` notifications in the order of their times.

    :param begin: begin of the simulated time, UTC without a zone
    :param per_day: approximate number of notifications for each simulated day
    :param prefix: text before the number in the message ids: ``n-0``, ``n-1`` and so on
    """
    cloud = Cloud(seed, begin, per_day, tenants, hosts)
    for number, notification in enumerate(itertools.islice(cloud.events(), count)):
        yield notification._replace(message_id=f"{prefix}{number}")


class Cloud:
    """The simulation of a cloud. One thread."""

    def __init__(
        self, seed: int, begin: datetime.datetime, per_day: int, tenants: int, hosts: int
    ) -> None:
        self.now = begin
        self._rng = random.Random(seed)
        self._tenants = [f"tenant-{n:02d}" for n in range(tenants)]
        self._hosts = [f"compute-{n:03d}" for n in range(hosts)]
        self._pause = 86_400.0 * _PER_LIFE / per_day
        self._most = max(MOST_ALIVE, int(2 * _LIFE_HOURS * 3600 / self._pause))
        self._queue: list[tuple[datetime.datetime, int, _Life]] = []
        self._numbers = itertools.count()
        self._instances: dict[str, p.Instance] = {}
        self._volumes: dict[str, p.Volume] = {}
        #: deleted since the last audit; the next audit reports them
        self._deleted: list[p.Instance | p.Volume] = []
        self._begin(self._arrivals())
        self._begin(self._audits())

    def events(self) -> Iterator[Notification]:
        """Yield notifications in the order of their times, without end."""
        while True:
            self.now, _, life = heapq.heappop(self._queue)
            for step in life:
                if isinstance(step, Notification):
                    yield step
                else:
                    later = self.now + datetime.timedelta(seconds=step)
                    heapq.heappush(self._queue, (later, next(self._numbers), life))
                    break

    def _begin(self, life: _Life) -> None:
        heapq.heappush(self._queue, (self.now, next(self._numbers), life))

    def _id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _took(self, typical: float) -> float:
        """Draw the seconds of an operation: mostly near ``typical``, sometimes many more."""
        return round(self._rng.lognormvariate(0.0, 0.5) * typical, 6)

    def _arrivals(self) -> _Life:
        while True:
            yield self._rng.expovariate(1.0 / self._pause)
            if len(self._instances) < self._most:
                self._begin(self._instance())

    def _audits(self) -> _Life:
        while True:
            midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0) + _AUDIT
            yield (midnight - self.now).total_seconds()
            told: list[p.Instance | p.Volume] = []
            told += self._instances.values()
            told += self._volumes.values()
            told += self._deleted
            self._deleted = []
            for resource in told:
                if self._rng.random() >= _LOST_EXISTS:
                    yield self._exists(resource, midnight)
                    yield 0.002

    # -- an instance, from the request to its end -------------------------------------------

    def _instance(self) -> _Life:
        rng, tenant = self._rng, self._rng.choice(self._tenants)
        i = p.Instance(
            self._id(),
            tenant,
            f"user-{tenant}",
            rng.choice(FLAVORS),
            rng.choice(self._hosts),
            self.now,
        )
        request = f"req-{self._id()}"
        yield self._nova(i, "create", "start", request)
        port = p.Port(self._id(), tenant, i.uuid, i.host, self.now)
        yield from self._port(port, "create", request)
        yield self._took(12.0)
        if rng.random() < _ERROR:
            i.state = "error"
            yield self._nova(i, "create", "error", request)
            yield from self._port(port, "delete", request)
            return
        i.state, i.launched_at = "active", self.now
        self._instances[i.uuid] = i
        yield from self._end(self._nova(i, "create", "end", request))
        if rng.random() < 0.4:
            self._begin(self._volume(i))
        if rng.random() < 0.15:
            yield rng.expovariate(1 / 3600)
            yield from self._resize(i)
        yield rng.expovariate(1.0 / (_LIFE_HOURS * 3600))
        request = f"req-{self._id()}"
        yield self._nova(i, "delete", "start", request)
        yield self._took(4.0)
        i.state, i.deleted_at = "deleted", self.now
        self._deleted.append(self._instances.pop(i.uuid))
        yield from self._port(port, "delete", request)
        yield from self._end(self._nova(i, "delete", "end", request))

    def _resize(self, i: p.Instance) -> _Life:
        request = f"req-{self._id()}"
        yield self._nova(i, "finish_resize", "start", request)
        yield self._took(20.0)
        i.flavor = self._rng.choice(FLAVORS)
        yield from self._end(self._nova(i, "finish_resize", "end", request))
        yield self._took(60.0)
        yield self._nova(i, "resize.confirm", "start", request)
        yield self._took(1.0)
        yield from self._end(self._nova(i, "resize.confirm", "end", request))

    def _volume(self, i: p.Instance) -> _Life:
        rng, request = self._rng, f"req-{self._id()}"
        v = p.Volume(
            self._id(),
            i.tenant_id,
            i.user_id,
            rng.choice((10, 50, 100, 500)),
            f"block-{rng.randrange(4)}@lvm",
            self.now,
        )
        yield self._cinder(v, "create", "start", request)
        yield self._took(3.0)
        if rng.random() < _ERROR:
            v.status = "error"
            yield self._cinder(v, "create", "error", request)
            return
        v.status, v.launched_at = "available", self.now
        self._volumes[v.id] = v
        yield from self._end(self._cinder(v, "create", "end", request))
        yield self._cinder(v, "attach", "start", request)
        yield self._took(2.0)
        v.status, v.attached_to = "in-use", i.uuid
        yield from self._end(self._cinder(v, "attach", "end", request))
        yield rng.expovariate(1.0 / (_LIFE_HOURS * 3600))
        request = f"req-{self._id()}"
        yield self._cinder(v, "delete", "start", request)
        yield self._took(3.0)
        v.status, v.deleted_at = "deleted", self.now
        self._deleted.append(self._volumes.pop(v.id))
        yield from self._end(self._cinder(v, "delete", "end", request))

    def _port(self, port: p.Port, action: str, request: str) -> _Life:
        start = p.port_request(port) if action == "create" else p.port_id(port)
        yield self._neutron(port, f"port.{action}.start", start, request)
        yield self._took(1.0)
        yield from self._end(self._neutron(port, f"port.{action}.end", p.port(port), request))

    def _end(self, notification: Notification) -> _Life:
        """Yield an end notification, or nothing in the rare case that it is lost."""
        if self._rng.random() >= _LOST_END:
            yield notification

    def _exists(self, of: p.Instance | p.Volume, midnight: datetime.datetime) -> Notification:
        """Return the exists notification of a resource, for the day that ends at ``midnight``."""
        begin = midnight - _AUDIT
        if isinstance(of, p.Volume):
            return Notification(
                self.now,
                "volume.exists",
                f"volume.{of.host}",
                p.exists_volume(of, begin, midnight),
                None,
                of.tenant_id,
            )
        return Notification(
            self.now,
            "compute.instance.exists",
            f"compute.{of.host}",
            p.exists_legacy(of, begin, midnight),
            None,
            of.tenant_id,
        )

    def _nova(self, i: p.Instance, action: str, phase: str, request: str) -> Notification:
        more = {"message": "No valid host was found"} if phase == "error" else {}
        return Notification(
            self.now,
            f"compute.instance.{action}.{phase}",
            f"compute.{i.host}",
            p.legacy(i, **more),
            request,
            i.tenant_id,
            i.user_id,
            "ERROR" if phase == "error" else "INFO",
        )

    def _cinder(self, v: p.Volume, action: str, phase: str, request: str) -> Notification:
        more = {"reason": "no backend has room"} if phase == "error" else {}
        return Notification(
            self.now,
            f"volume.{action}.{phase}",
            f"volume.{v.host}",
            p.volume(v, **more),
            request,
            v.tenant_id,
            v.user_id,
            "ERROR" if phase == "error" else "INFO",
        )

    def _neutron(
        self, port: p.Port, event: str, payload: dict[str, object], request: str
    ) -> Notification:
        return Notification(
            self.now,
            event,
            "network.ctrl-1",
            payload,
            request,
            port.tenant_id,
            f"user-{port.tenant_id}",
        )
