# SPDX-License-Identifier: Apache-2.0

"""One RPC call and one notification with the configuration of a service.

    python check_bus.py FILE SECONDS

Uses oslo.messaging only, as services do. Exits 1, with the reason, when one of them does not
arrive in time.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Any

import oslo_messaging
from oslo_config import cfg

TOPIC = "devstack-check"


class _Endpoint:
    def echo(self, _context: dict[str, Any], value: str) -> str:
        return value


class _Listener:
    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def info(self, _context: Any, _publisher: str, _event: str, payload: Any, _meta: Any) -> None:
        self.heard.put(payload)


def check_rpc(conf: cfg.ConfigOpts, seconds: float) -> None:
    """A call to a server of our own over ``[DEFAULT] transport_url``."""
    transport = oslo_messaging.get_rpc_transport(conf)
    target = oslo_messaging.Target(topic=TOPIC, server="here")
    server = oslo_messaging.get_rpc_server(transport, target, [_Endpoint()], executor="threading")
    # Waits for its subscription, longer than the call may take.
    starting = threading.Thread(target=server.start, daemon=True)
    starting.start()
    anywhere = oslo_messaging.Target(topic=TOPIC)
    client = oslo_messaging.get_rpc_client(transport, anywhere, timeout=seconds)
    if client.call({}, "echo", value="sent") != "sent":
        raise RuntimeError("the call came back with another value")
    starting.join()
    server.stop()
    server.wait()
    transport.cleanup()


def check_notification(conf: cfg.ConfigOpts, seconds: float) -> None:
    """A notification to a listener of our own, over the transport of notifications."""
    transport = oslo_messaging.get_notification_transport(conf)
    endpoint = _Listener()
    listener = oslo_messaging.get_notification_listener(
        transport, [oslo_messaging.Target(topic=TOPIC)], [endpoint], executor="threading"
    )
    # First, where nobody keeps a notification that has no reader.
    listener.start()
    notifier = oslo_messaging.Notifier(
        transport, "devstack", driver="messagingv2", topics=[TOPIC], retry=0
    )
    notifier.info({}, "devstack.check", {"value": "sent"})
    try:
        endpoint.heard.get(timeout=seconds)
    except queue.Empty:
        raise RuntimeError("the notification did not arrive") from None
    listener.stop()
    listener.wait()
    transport.cleanup()


def main(file: str, seconds: str) -> None:
    conf = cfg.ConfigOpts()
    conf(["--config-file", file], project="devstack-check")
    for name, check in (("RPC", check_rpc), ("notifications", check_notification)):
        try:
            check(conf, float(seconds))
        except Exception as error:
            print(f"{name}: failed: {error!r}", file=sys.stderr, flush=True)
            # not waiting for servers that still try to reach the bus
            os._exit(1)
        print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
