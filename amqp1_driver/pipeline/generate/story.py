# SPDX-License-Identifier: Apache-2.0

"""Two days of a small cloud, always the same, whose tables a reader can compute by hand.

The cloud has three tenants, six instances (nova's legacy and versioned notifications), three
volumes and three ports. Things go wrong: failed creations, a second attempt on another host, ends
that are lost, an audit that disagrees, notifications that come late, twice, or broken. All times
are in :data:`SCRIPT`, except those of the audits. On the caller's thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple

from amqp1_driver.pipeline.generate import payloads as p
from amqp1_driver.pipeline.generate.notification import Notification

FIRST = datetime.datetime(2026, 3, 2)
SECOND = datetime.datetime(2026, 3, 3)
THIRD = datetime.datetime(2026, 3, 4)
SMALL = p.Flavor("small", 1, 2048, 20)
LARGE = p.Flavor("large", 4, 8192, 80, 20)
NO_HOST = "No valid host was found"

#: cues with ``|`` between: day, time, resource, action, phase, request; :class:`_Stage` applies
#: them
SCRIPT = """
1 07:59:50 i1 create start a    | 1 07:59:59 p1 create start a    | 1 08:00:00 p1 create end a
1 08:00:00 i1 create end a      | 1 08:29:58 v1 create start b    | 1 08:30:00 v1 create end b
1 08:59:45 i2 create start c    | 1 09:00:00 i2 create end c      | 1 09:01:00 v1 attach start d
1 09:01:03 v1 attach end d      | 1 09:59:50 i3 create start e    | 1 10:00:00 i3 create error e
1 10:59:00 i4 create start f    | 1 10:59:20 i4 create error f    | 1 10:59:30 i4 create start f
1 10:59:58 p2 create start f    | 1 11:00:00 p2 create end f      | 1 11:00:00 i4 create end f
1 11:59:40 i1 finish_resize start g | 1 12:00:00 i1 finish_resize end g
1 11:59:57 v2 create start h    | 1 12:00:00 v2 create end h
1 12:05:00 i1 resize.confirm start g | 1 12:05:01 i1 resize.confirm end g
1 13:00:00 v3 create start i    | 1 13:00:04 v3 create error i    | 1 15:00:00 i2 reboot end j
1 16:59:50 i4 shelve_offload start k | 1 17:00:00 i4 shelve_offload end k
1 17:59:58 v2 delete start l    | 1 18:00:00 v2 delete end l
1 19:59:48 i5 create start m    | 1 19:59:49 p3 create start m    | 1 20:00:00 i5 create end m
1 20:29:55 v1 resize start n    | 1 20:30:00 v1 resize end n      | 1 23:00:00 i5 delete start o
2 05:59:56 i1 delete start q    | 2 05:59:59 p1 delete start q    | 2 06:00:00 p1 delete end q
2 06:00:00 i1 delete end q      | 2 07:59:40 i4 unshelve start r  | 2 08:00:00 i4 unshelve end r
2 09:00:00 u1 user created s
"""
#: resource, action and phase of the message that comes after all others, a day and more too late
LATE = ("v2", "delete", "end")
#: the messages that come twice
DOUBLED = (("i2", "create", "end"), ("v1", "create", "end"), ("p1", "delete", "end"))
#: bodies of malformed messages, which come among the others
BROKEN = (
    b'{"request": {"oslo.version": "2.0", "oslo.message": "{\\"event_type\\": \\"comp',
    b'{"oslo.version": "2.0", "oslo.message": "[\\"no\\", \\"message\\"]"}',
    b'{"request": {"method": "ping", "args": {}}, "context": {}}',
    b'{"message_id": "x-1", "event_type": "volume.create.end", "timestamp": "yesterday"}',
    b"\xff\xfe\x00\x01",
)


class Emission(NamedTuple):
    """A message for the bus: its AMQP message-id, body, and the priority that selects the queue."""

    message_id: str
    body: bytes
    priority: str = "info"


def notifications() -> list[Notification]:
    """Return all notifications once: first those of the script, then those of the audits.

    The message ids are ``s-1``, ``s-2`` and so on.
    """
    stage = _Stage()
    cues = [cue.split() for line in SCRIPT.strip().splitlines() for cue in line.split("|")]
    told = [
        (" ".join((cue[2], cue[3], cue[4])), stage.tell(*cue))
        for cue in sorted(cues, key=lambda cue: (cue[0], cue[1]))
    ]
    told += [("audit", notification) for notification in stage.audits()]
    return [
        notification._replace(message_id=f"s-{number}")
        for number, (_, notification) in enumerate(told, 1)
    ]


def emissions() -> Iterator[Emission]:
    """Yield the messages in the order of sending; every third has the rabbit driver's envelope."""
    late: list[Emission] = []
    broken = iter(BROKEN)
    for number, notification in enumerate(notifications()):
        form = ("amqp", "amqp", "rabbit")[number % 3]
        priority = notification.priority.lower()
        emission = Emission(notification.message_id, notification.body(form), priority)
        cue = _cue(notification)
        if cue == LATE:
            late.append(emission)
            continue
        yield emission
        if cue in DOUBLED:
            yield emission._replace(message_id=f"{emission.message_id}-again")
        if number % 12 == 11 and (body := next(broken, None)) is not None:
            yield Emission(f"broken-{number}", body)
    for number, body in enumerate(broken):
        yield Emission(f"broken-last-{number}", body)
    yield from late


def _cue(notification: Notification) -> tuple[str, ...]:
    """Return resource, action and phase of a notification, as in the script."""
    parts = notification.event_type.removeprefix("compute.").split(".")
    payload = notification.payload
    data = payload.get("nova_object.data", payload.get("port", payload))
    name = str(
        next(
            (
                data[key]
                for key in ("uuid", "instance_id", "volume_id", "id", "port_id")
                if key in data
            ),
            "",
        )
    )
    return (name, ".".join(parts[1:-1]), parts[-1])


class _Stage:
    """The state of the cloud, which each cue changes."""

    def __init__(self) -> None:
        def instance(name: str, tenant: str, flavor: p.Flavor, host: str) -> p.Instance:
            return p.Instance(name, tenant, f"user-{tenant}", flavor, host, FIRST)

        def volume(name: str, tenant: str, size: int) -> p.Volume:
            return p.Volume(name, tenant, f"user-{tenant}", size, "block-1@lvm", FIRST)

        self.instances = {
            "i1": instance("i1", "red", SMALL, "compute-1"),
            "i2": instance("i2", "red", SMALL, "compute-2"),
            "i3": instance("i3", "green", LARGE, "compute-1"),
            "i4": instance("i4", "green", SMALL, "compute-1"),
            "i5": instance("i5", "blue", LARGE, "compute-1"),
            "i6": instance("i6", "blue", SMALL, "compute-2"),
        }
        self.volumes = {
            "v1": volume("v1", "red", 10),
            "v2": volume("v2", "blue", 100),
            "v3": volume("v3", "green", 50),
        }
        self.ports = {
            "p1": p.Port("p1", "red", "i1", "compute-1", FIRST),
            "p2": p.Port("p2", "green", "i4", "compute-2", FIRST),
            "p3": p.Port("p3", "blue", "i5", "compute-1", FIRST),
        }

    def tell(
        self, day: str, clock: str, name: str, action: str, phase: str, request: str
    ) -> Notification:
        """Apply one cue of the script, and return its notification."""
        time = (FIRST if day == "1" else SECOND) + (
            datetime.datetime.strptime(clock, "%H:%M:%S") - datetime.datetime(1900, 1, 1)
        )
        request_id = f"req-{request}"
        make = {"i": self._instance, "v": self._volume, "p": self._port, "u": self._user}[name[0]]
        return make(time, name, action, phase, request_id)

    def _instance(
        self, time: datetime.datetime, name: str, action: str, phase: str, request_id: str
    ) -> Notification:
        i = self.instances[name]
        if name == "i4" and phase == "error":
            priority, host = "ERROR", "compute-1"
        else:
            if name == "i4" and (action, phase) == ("create", "start") and i.state == "error":
                i.host, i.state = "compute-2", "building"  # the second attempt
            priority, host = ("ERROR" if phase == "error" else "INFO"), i.host
        if phase == "end":
            self._done(i, time, action)
        elif phase == "error":
            i.state = "error"
        if name in ("i2", "i4", "i6"):
            fault = ("NoValidHost", NO_HOST) if phase == "error" else None
            payload, event = p.versioned(i, fault), f"instance.{action}.{phase}"
            publisher = f"nova-compute:{host}"
        else:
            more = {"message": NO_HOST} if phase == "error" else {}
            payload, event = p.legacy(i, **more), f"compute.instance.{action}.{phase}"
            publisher = f"compute.{host}"
        return Notification(
            time, event, publisher, payload, request_id, i.tenant_id, i.user_id, priority
        )

    @staticmethod
    def _done(i: p.Instance, time: datetime.datetime, action: str) -> None:
        if action == "finish_resize":
            i.flavor = LARGE
        elif action == "delete":
            i.deleted_at = time
        elif action == "create":
            i.launched_at = time
        i.state = {"delete": "deleted", "shelve_offload": "shelved_offloaded"}.get(action, "active")

    def _volume(
        self, time: datetime.datetime, name: str, action: str, phase: str, request_id: str
    ) -> Notification:
        v = self.volumes[name]
        more: dict[str, Any] = {}
        if phase == "end":
            v.launched_at = v.launched_at or time
            v.status = {"delete": "deleted", "attach": "in-use"}.get(action, "available")
            v.attached_to = "i1" if action == "attach" else v.attached_to
            v.size = 20 if action == "resize" else v.size
        elif phase == "error":
            v.status, more = "error", {"reason": "no backend has room"}
        return Notification(
            time,
            f"volume.{action}.{phase}",
            f"volume.{v.host}",
            p.volume(v, **more),
            request_id,
            v.tenant_id,
            v.user_id,
            "ERROR" if phase == "error" else "INFO",
        )

    def _port(
        self, time: datetime.datetime, name: str, action: str, phase: str, request_id: str
    ) -> Notification:
        port = self.ports[name]
        if (action, phase) == ("create", "start"):
            payload = p.port_request(port)
        else:
            payload = p.port_id(port) if phase == "start" else p.port(port)
        return Notification(
            time,
            f"port.{action}.{phase}",
            "network.ctrl-1",
            payload,
            request_id,
            port.tenant_id,
            f"user-{port.tenant_id}",
        )

    def _user(
        self, time: datetime.datetime, name: str, action: str, phase: str, request_id: str
    ) -> Notification:
        return Notification(
            time,
            f"identity.{action}.{phase}",
            "identity.ctrl-1",
            {"resource_info": name, "initiator": {"id": "admin"}},
            request_id,
        )

    def audits(self) -> Iterator[Notification]:
        """Yield the exists notifications of both days, some of which disagree with the script.

        On the first day they say that i5 was deleted, name i6, which the script does not have, and
        leave out v2. On the second day they give i2 a larger flavor, and leave out i5.
        """
        i, second = self.instances, datetime.timedelta(seconds=1)
        at = SECOND + 10 * second
        i4 = p.Instance(
            "i4",
            "green",
            "user-green",
            SMALL,
            "compute-2",
            FIRST,
            "shelved_offloaded",
            FIRST.replace(hour=11),
        )
        i5 = p.Instance(
            "i5",
            "blue",
            "user-blue",
            LARGE,
            "compute-1",
            FIRST,
            "deleted",
            FIRST.replace(hour=20),
            FIRST.replace(hour=23, second=3),
        )
        i1 = p.Instance(
            "i1", "red", "user-red", LARGE, "compute-1", FIRST, "active", FIRST.replace(hour=8)
        )
        i6 = i["i6"]
        yield self._exists(at, i1, FIRST)
        yield self._exists(at + second, i["i2"], FIRST)
        yield self._exists(at + 2 * second, i4, FIRST)
        yield self._exists(at + 3 * second, i5, FIRST)
        yield self._exists(at + 4 * second, i6, FIRST)
        yield self._exists(at + 5 * second, self.volumes["v1"], FIRST)
        at = THIRD + 10 * second
        i2 = p.Instance(
            "i2", "red", "user-red", LARGE, "compute-2", FIRST, "active", FIRST.replace(hour=9)
        )
        yield self._exists(at, i["i1"], SECOND)
        yield self._exists(at + second, i2, SECOND)
        yield self._exists(at + 2 * second, i["i4"], SECOND)
        yield self._exists(at + 3 * second, self.volumes["v1"], SECOND)

    @staticmethod
    def _exists(
        at: datetime.datetime, of: p.Instance | p.Volume, begin: datetime.datetime
    ) -> Notification:
        end = begin + datetime.timedelta(days=1)
        if isinstance(of, p.Volume):
            return Notification(
                at,
                "volume.exists",
                f"volume.{of.host}",
                p.exists_volume(of, begin, end),
                "req-audit",
                of.tenant_id,
            )
        if of.uuid in ("i2", "i4", "i6"):
            return Notification(
                at,
                "instance.exists",
                f"nova-compute:{of.host}",
                p.exists_versioned(of, begin, end),
                "req-audit",
                of.tenant_id,
            )
        return Notification(
            at,
            "compute.instance.exists",
            f"compute.{of.host}",
            p.exists_legacy(of, begin, end),
            "req-audit",
            of.tenant_id,
        )
