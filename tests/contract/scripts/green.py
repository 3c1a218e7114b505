# SPDX-License-Identifier: Apache-2.0

"""A process that eventlet has patched: green.py URL [HOST:PORT of a peer that stays silent]

Server, listener and clients in one process; prints one JSON object with what was seen.
"""

import eventlet

eventlet.monkey_patch()

import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import oslo_messaging  # noqa: E402
from eventlet import event  # noqa: E402
from oslo_config import cfg  # noqa: E402


class Endpoint:
    def __init__(self):
        self.cast_seen = event.Event()

    def echo(self, ctxt, value):
        return value

    def slow(self, ctxt, seconds):
        # the work of a slow server: it is what the call waits for, not what the test does
        time.sleep(seconds)
        return "slow"

    def note(self, ctxt, value):
        self.cast_seen.send(value)


class Events:
    def __init__(self):
        self.seen = event.Event()

    def info(self, ctxt, publisher, kind, payload, metadata):
        self.seen.send(payload)


def transport(conf, url):
    return oslo_messaging.get_rpc_transport(conf, url=url)


def main(url, silent):
    conf = cfg.ConfigOpts()
    conf([])
    endpoint, events, seen = Endpoint(), Events(), {}
    serving = transport(conf, url)
    server = oslo_messaging.get_rpc_server(
        serving, oslo_messaging.Target(topic="green", server="s"), [endpoint], executor="eventlet"
    )
    server.start()
    listening = oslo_messaging.get_notification_transport(conf, url=url)
    listener = oslo_messaging.get_notification_listener(
        listening, [oslo_messaging.Target(topic="events")], [events], executor="eventlet"
    )
    listener.start()
    calling = transport(conf, url)
    client = oslo_messaging.get_rpc_client(
        calling, oslo_messaging.Target(topic="green"), timeout=10
    )
    seen["call"] = client.call({}, "echo", value="a call")
    with eventlet.Timeout(10):
        client.cast({}, "note", value="a cast")
        seen["cast"] = endpoint.cast_seen.wait()
        oslo_messaging.Notifier(calling, "p", driver="messagingv2", topics=["events"]).info(
            {}, "kind", "a notification"
        )
        seen["notification"] = events.seen.wait()
    # many green threads at once
    pool = eventlet.GreenPool(50)
    seen["calls"] = list(pool.imap(lambda n: client.call({}, "echo", value=n), range(200)))
    # a call that blocks its green thread leaves the hub to the others
    ticks = []
    # the other green thread's work: it goes on only while the hub is free
    clock = eventlet.spawn(lambda: [(ticks.append(1), time.sleep(0.01)) for _ in range(1000)])
    seen["slow"] = client.call({}, "slow", seconds=0.5)
    seen["ticks during a slow call"] = len(ticks)
    ticks.clear()
    mute = transport(conf, f"amqp://{silent}")
    since = time.monotonic()
    try:
        oslo_messaging.get_rpc_client(mute, oslo_messaging.Target(topic="t"), timeout=0.5).call(
            {}, "echo"
        )
    except oslo_messaging.MessagingTimeout:
        seen["timed out after"] = time.monotonic() - since
    seen["ticks during a time-out"] = len(ticks)
    ticks.clear()
    unknown = transport(conf, "amqp://no-such-host.invalid")
    try:
        oslo_messaging.get_rpc_client(unknown, oslo_messaging.Target(topic="t"), timeout=0.5).call(
            {}, "echo"
        )
    except oslo_messaging.MessagingTimeout:
        seen["ticks during a lookup"] = len(ticks)
    clock.kill()
    for ending in (server, listener):
        ending.stop()
        ending.wait()
    for closing in (serving, listening, calling, mute, unknown):
        closing.cleanup()
    seen["threads"] = sorted(t.name for t in threading.enumerate() if "amqp1" in t.name)
    print(json.dumps(seen))


main(*sys.argv[1:])
