# SPDX-License-Identifier: Apache-2.0

"""The first use of a transport, in a process of its own; called by test_first_use."""

from __future__ import annotations

import importlib.abc
import json
import os
import signal
import sys
import threading
from typing import Any

import oslo_messaging as om
from oslo_config import cfg

from amqp1_driver import options


class Hold(importlib.abc.MetaPathFinder):
    """Holds the imports of one thread until the process has forked."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.reached = threading.Event()
        self.forked = threading.Event()

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if threading.current_thread() is self.thread and not self.forked.is_set():
            self.reached.set()
            self.forked.wait(60)


def call(transport: Any, timeout: float = 5.0) -> str:
    target = om.Target(topic="topic", server="server")
    client = om.get_rpc_client(transport, target, timeout=timeout)
    try:
        return str(client.call({}, "echo", value="answer"))
    except om.MessagingException as error:
        return type(error).__name__


def imports(transport: Any) -> list[str]:
    """What the first call imports."""
    before = set(sys.modules)
    call(transport, 1.0)
    transport.cleanup()
    return sorted(set(sys.modules) - before)


def fork(transport: Any) -> int:
    """Fork while another thread makes the first call; the status of the child after its own."""
    hold = Hold()
    sys.meta_path.insert(0, hold)

    def first() -> None:
        call(transport)
        hold.reached.set()

    hold.thread = threading.Thread(target=first)
    hold.thread.start()
    hold.reached.wait(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # its end, if it hangs
        os._exit(0 if call(transport) == "answer" else 1)
    hold.forked.set()
    status = os.waitpid(pid, 0)[1]
    hold.thread.join()
    transport.cleanup()
    return status


def main() -> None:
    what, url, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    conf = cfg.ConfigOpts()
    conf([], project="first", default_config_files=[])
    options.register_opts(conf)
    for name, value in settings.items():
        conf.set_override(name, value, group="oslo_messaging_amqp")
    transport = om.get_rpc_transport(conf, url=url)
    transport._driver  # noqa: B018 (stevedore has loaded it)
    print(json.dumps(imports(transport) if what == "imports" else fork(transport)))


main()
