# SPDX-License-Identifier: Apache-2.0

"""What a bus can do beyond oslo.messaging's suite: one probe each, recorded, not judged.

    python -m tests.functional.abilities --bus rabbitmq-4.3 --bus artemis --results FILE.json

A probe that raises says that the bus cannot do it (or the driver on it); the last line of the
error is kept as the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging

from tests.contract.apps import App, Endpoint, Events
from tests.functional import buses, results

TOP = pathlib.Path(__file__).resolve().parents[2]
LOGS = TOP / ".functional"

#: How long a message may take, seconds.
_SECONDS = 5.0
#: How long a sender waits where nobody takes it.
_SHORT = 2.0

Apps = Callable[..., App]


class Cannot(Exception):
    """The reason why a probe says no."""


def _topic() -> str:
    return f"probe-{uuid.uuid4().hex[:8]}"


def _take(endpoint: Endpoint | Events, what: str) -> Any:
    try:
        return endpoint.take(_SECONDS)
    except queue.Empty:
        raise Cannot(f"{what} did not arrive in {_SECONDS:.0f} s") from None


def cast_waits(apps: Apps) -> None:
    """A cast waits on the bus for a server that starts later"""
    app, topic, endpoint = apps(default_send_timeout=_SHORT), _topic(), Endpoint()
    app.client(topic, retry=0).cast({}, "echo", value="early")
    app.server(endpoint, topic=topic)
    _take(endpoint, "the cast")


def notification_waits(apps: Apps) -> None:
    """A notification waits on the bus for a listener that starts later"""
    app, topic, events = apps(default_notify_timeout=_SHORT), _topic(), Events()
    app.notify("early", topic=topic, retry=0)
    app.listener(events, topic=topic)
    _take(events, "the notification")


def nobody_there(apps: Apps) -> None:
    """A call to one server that is not there fails at once"""
    client = apps().client(_topic(), server="gone", timeout=_SECONDS, retry=0)
    since = time.monotonic()
    with contextlib.suppress(oslo_messaging.MessageDeliveryFailure):
        try:
            client.call({}, "echo", value=1)
        except oslo_messaging.MessagingTimeout:
            raise Cannot("it waits until its time is up") from None
    if time.monotonic() - since > _SECONDS / 2:
        raise Cannot("it waits until its time is up")


def undeliverable(apps: Apps) -> None:
    """``at_least_once`` reports a server that is not there as MessageUndeliverable"""
    client = apps(default_send_timeout=_SHORT).client(
        _topic(),
        server="gone",
        retry=0,
        timeout=_SHORT,
        transport_options=oslo_messaging.TransportOptions(at_least_once=True),
    )
    try:
        client.call({}, "echo", value=1)
    except oslo_messaging.MessageUndeliverable:
        return
    raise Cannot("no error")


def pools(apps: Apps) -> None:
    """Each pool of notification listeners gets every notification"""
    app, topic, first, second = apps(), _topic(), Events(), Events()
    app.listener(first, topic=topic, pool="one")
    app.listener(second, topic=topic, pool="two")
    app.notify("news", topic=topic)
    _take(first, "the copy of the first pool")
    _take(second, "the copy of the second pool")


def requeue(apps: Apps) -> None:
    """A requeued notification comes again"""
    answers = iter([oslo_messaging.NotificationResult.REQUEUE])
    app, topic = apps(), _topic()
    events = Events(lambda _payload: next(answers, oslo_messaging.NotificationResult.HANDLED))
    app.listener(events, topic=topic, requeue=True)
    app.notify("news", topic=topic)
    _take(events, "the notification")
    _take(events, "the notification that was put back")


def fanout_late(apps: Apps) -> None:
    """A fanout cast reaches a server that started after another one had gone"""
    app, topic = apps(), _topic()
    app.server(Endpoint(), topic=topic, server="old")
    app.close_servers()
    endpoint = Endpoint()
    app.server(endpoint, topic=topic, server="new")
    app.client(topic, fanout=True).cast({}, "echo", value="all")
    _take(endpoint, "the fanout")


def fanout_to_nobody(apps: Apps) -> None:
    """A fanout cast without any server is no error"""
    app = apps(default_send_timeout=_SHORT)
    app.client(_topic(), fanout=True, retry=0).cast({}, "echo", value="all")


def virtual_hosts(apps: Apps) -> None:
    """Virtual hosts of the transport URL are kept apart (``pseudo_vhost``)"""
    app, topic = apps(), _topic()
    endpoints = {}
    for name in ("one", "two"):
        endpoints[name] = Endpoint()
        app.server(endpoints[name], topic=topic, transport=app.transport(_with_vhost(app, name)))
    for name in ("one", "two"):
        app.client(topic, transport=app.transport(_with_vhost(app, name))).call(
            {}, "echo", value=name
        )
    heard = {name: _take(endpoint, "the call") for name, endpoint in endpoints.items()}
    if heard != {"one": "one", "two": "two"}:
        raise Cannot(f"heard {heard}")


def _with_vhost(app: App, name: str) -> str:
    base, question, query = app.url.partition("?")
    scheme, _, rest = base.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{name}{question}{query}"


def monitoring(apps: Apps) -> None:
    """Calls that take longer than ``call_monitor_timeout`` are watched over by heartbeats"""
    app, topic, endpoint = apps(), _topic(), Endpoint()
    app.server(endpoint, topic=topic)
    # oslo.messaging sends no heartbeats for less than two seconds
    opener = threading.Timer(3.5, endpoint.gate.set)
    opener.start()
    try:
        client = app.client(topic, call_monitor_timeout=2, timeout=10)
        if client.call({}, "wait", value="late") != "late":
            raise Cannot("another value")
    finally:
        opener.cancel()
        endpoint.gate.set()


def _large(apps: Apps, size: int) -> None:
    app, topic, endpoint = apps(), _topic(), Endpoint()
    app.server(endpoint, topic=topic)
    value = "x" * size
    if app.client(topic, timeout=30).call({}, "echo", value=value) != value:
        raise Cannot("another value")


def one_megabyte(apps: Apps) -> None:
    """A call and its reply of 1 MiB"""
    _large(apps, 1 << 20)


def large(apps: Apps) -> None:
    """A call and its reply of 12 MiB"""
    _large(apps, 12 << 20)


PROBES: tuple[Callable[[Apps], None], ...] = (
    cast_waits,
    notification_waits,
    nobody_there,
    undeliverable,
    fanout_to_nobody,
    fanout_late,
    pools,
    requeue,
    virtual_hosts,
    monitoring,
    one_megabyte,
    large,
)


@contextlib.contextmanager
def _apps(url: str) -> Iterator[Apps]:
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(App(url, **settings))


def probe(url: str, which: Callable[[Apps], None]) -> dict[str, str]:
    """Run one probe; never raises."""
    result = {"id": which.__name__, "outcome": "passed", "detail": ""}
    try:
        with _apps(url) as apps:
            which(apps)
    except Exception as error:
        reason = str(error) if isinstance(error, Cannot) else f"{type(error).__name__}: {error}"
        result |= {"outcome": "failed", "detail": reason}
    return result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.functional.abilities")
    parser.add_argument("--bus", action="append", required=True, help="as tests.functional.run")
    parser.add_argument("--results", type=pathlib.Path, required=True, metavar="FILE.json")
    args = parser.parse_args(argv)
    LOGS.mkdir(exist_ok=True)
    for bus in args.bus:
        with buses.running(bus, LOGS / f"abilities-{bus}.log") as address:
            product = results.identity(address)
            found = [probe(f"amqp://{address}", which) for which in PROBES]
        results.store(args.results, results.entry("abilities", bus, product, found))
        for result in found:
            print(f"{bus:14} {result['id']:20} {result['outcome']:8} {result['detail'][:120]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
