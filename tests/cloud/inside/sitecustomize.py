# SPDX-License-Identifier: Apache-2.0
"""Tells the recorder what the messaging of a service does. Python imports it in each service.

One datagram for each event, JSON, to the socket that CLOUD_RECORDER names:

- ``sent``: a client has called or cast; with its duration and, when it failed, the exception
- ``executed``: a server begins to execute a request
- ``notified``: a notification is handed to the transport

It works with each of oslo.messaging's drivers. It imports nothing of the service, so that a
service which uses eventlet can still choose when to patch.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import socket
import sys
import time

_SERVICE = os.environ.get("CLOUD_SERVICE", "")
_PATH = os.environ.get("CLOUD_RECORDER", "")


class _Recorder:
    """The sender's end. Any thread, also after a fork: a datagram is sent whole or not at all."""

    def __init__(self, path):
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # a recorder that reads no more must not hold up the service
        self._socket.settimeout(5)

    def tell(self, **event):
        event.update(service=_SERVICE, pid=os.getpid(), at=time.time())
        try:
            self._socket.sendto(json.dumps(event, default=str).encode(), self._path)
        except OSError:
            pass  # the cloud ends: its recorder has gone before its services


def _kind(context, cast):
    target = context.target
    if target.fanout:
        return "fanout"
    return ("cast" if cast else "call") + (" to a server" if target.server else "")


def _client(module, recorder):
    """Wrap call and cast of oslo_messaging.rpc.client."""

    def wrapped(plain, cast):
        @functools.wraps(plain)
        def run(self, ctxt, method, **arguments):
            since, error = time.monotonic(), None
            try:
                return plain(self, ctxt, method, **arguments)
            except Exception as e:
                error = type(e).__name__
                raise
            finally:
                recorder.tell(
                    event="sent",
                    kind=_kind(self, cast),
                    topic=self.target.topic,
                    method=method,
                    seconds=time.monotonic() - since,
                    error=error,
                )

        return run

    context = module._BaseCallContext
    context.call = wrapped(context.call, False)
    context.cast = wrapped(context.cast, True)


def _dispatcher(module, recorder):
    """Wrap dispatch of oslo_messaging.rpc.dispatcher."""
    plain = module.RPCDispatcher.dispatch

    @functools.wraps(plain)
    def dispatch(self, incoming):
        # rabbit's driver calls it unique_id; msg_id is what a caller waits for
        identity = getattr(incoming, "unique_id", None) or getattr(incoming, "msg_id", None)
        recorder.tell(event="executed", id=identity, method=incoming.message.get("method"))
        return plain(self, incoming)

    module.RPCDispatcher.dispatch = dispatch


def _notifier(module, recorder):
    """Wrap notify of oslo_messaging.notify.messaging."""
    plain = module.MessagingDriver.notify

    @functools.wraps(plain)
    def notify(self, ctxt, message, priority, retry):
        recorder.tell(
            event="notified",
            id=message["message_id"],
            type=message["event_type"],
            publisher=message["publisher_id"],
            topics=list(self.topics),
        )
        return plain(self, ctxt, message, priority, retry)

    module.MessagingDriver.notify = notify


def _transport(module, recorder):
    """Wrap _send_notification of oslo_messaging.transport: the notifier keeps its errors."""
    plain = module.Transport._send_notification

    @functools.wraps(plain)
    def send(self, target, ctxt, message, *arguments, **options):
        try:
            return plain(self, target, ctxt, message, *arguments, **options)
        except Exception as e:
            recorder.tell(event="refused", id=message["message_id"], error=type(e).__name__)
            raise

    module.Transport._send_notification = send


_WRAPPERS = {
    "oslo_messaging.rpc.client": _client,
    "oslo_messaging.rpc.dispatcher": _dispatcher,
    "oslo_messaging.notify.messaging": _notifier,
    "oslo_messaging.transport": _transport,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps a module right after it has been imported, and finds the hypervisor of this cloud."""

    def __init__(self, recorder):
        self._recorder = recorder

    def find_spec(self, name, path, target=None):
        if name == "nova.virt.cloud":  # nova looks for drivers in a package of its own
            file = os.path.join(os.path.dirname(__file__), "fakes_nova.py")
            return importlib.util.spec_from_file_location(name, file)
        if name not in _WRAPPERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            _WRAPPERS[name](module, self._recorder)

        spec.loader.exec_module = exec_module
        return spec


if _PATH:
    sys.meta_path.insert(0, _Finder(_Recorder(_PATH)))
