# SPDX-License-Identifier: Apache-2.0
"""The buses as the faults need them: each node can be killed, stopped, started and upset."""

from __future__ import annotations

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from pathlib import Path

from amqp1_driver.testing.fixture import BusProcess
from tests.bars.ports import lasting_port
from tests.bars.rabbitmq import RabbitMQ
from tests.buses.javabus import JavaBus
from tests.functional.buses import JAVA, RABBITMQ

USER, PASSWORD, OTHER = "guest", "guest", "other"


class Node(ABC):
    """One bus node on 127.0.0.1. Any thread, one at a time.

    Faults that a bus does not know raise NotImplementedError; `faults.ON` says which it knows.
    """

    port: int

    @abstractmethod
    def start(self) -> None:
        """Return when it listens; what it stored before is there again."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Send the signal STOP or CONT."""

    @abstractmethod
    def wipe(self) -> None:
        """End it and forget what it stored."""

    def alarm(self, kind: str, on: bool) -> None:
        """Raise or clear an alarm: "memory" or "disk"."""
        raise NotImplementedError

    def close_connections(self) -> None:
        """Have the bus close all connections."""
        raise NotImplementedError

    def delete_queues(self) -> int:
        """Delete all queues that messages wait in; the number of messages that went with them."""
        raise NotImplementedError

    def change_password(self, right: bool) -> None:
        """Let the user in with the right or with another password only."""
        raise NotImplementedError


class Embedded(Node):
    """The embedded bus, in a process of its own."""

    def __init__(self, mode: str, port: int) -> None:
        self.port = port
        self._mode = mode
        self._bus = self._made(PASSWORD)

    def _made(self, password: str) -> BusProcess:
        return BusProcess(self._mode, "--user", f"{USER}:{password}", port=self.port)

    def start(self) -> None:
        self._bus.start()

    def kill(self) -> None:
        self._bus.kill()

    def signal(self, name: str) -> None:
        pid = self._bus.pid
        if pid is not None:
            os.kill(pid, getattr(signal, f"SIG{name}"))

    def wipe(self) -> None:
        self._bus.kill()

    def change_password(self, right: bool) -> None:
        """Start it anew, for it reads its users once."""
        self._bus.kill()
        self._bus = self._made(PASSWORD if right else OTHER)
        self._bus.start()


class Rabbit(Node):
    """RabbitMQ."""

    def __init__(self, suite: str, port: int, log: Path) -> None:
        self._node = RabbitMQ(suite, log)
        self._node.port = self.port = port

    def start(self) -> None:
        self._node.install()
        self._node.start()

    def kill(self) -> None:
        self._node.kill()

    def signal(self, name: str) -> None:
        self._node.signal(name)

    def wipe(self) -> None:
        with contextlib.suppress(RuntimeError):  # it may be dead
            self._node.signal("CONT")
        self._node.wipe()

    def alarm(self, kind: str, on: bool) -> None:
        if kind == "memory":
            self._node.ctl("set_vm_memory_high_watermark", "0.000001" if on else "0.6")
        else:
            self._node.ctl("set_disk_free_limit", "1000000GB" if on else "50MB")

    def close_connections(self) -> None:
        self._node.ctl("close_all_connections", "chaos")

    def delete_queues(self) -> int:
        # on the node itself: a client's connection would be in the way of other faults
        found = self._node.ctl("eval", _DELETE)
        return int(found.split()[-1])

    def change_password(self, right: bool) -> None:
        self._node.ctl("change_password", USER, PASSWORD if right else OTHER)

    def add_virtual_host(self, name: str) -> None:
        """Make a virtual host that its user may use."""
        self._node.ctl("add_vhost", name)
        self._node.ctl("set_permissions", "-p", name, USER, ".*", ".*", ".*")


#: delete all queues that are not exclusive, and count the messages that go with them: those under
#: way to a server too, which may be cut off from the bus
_DELETE = """
lists:sum([case rabbit_amqqueue:with(amqqueue:get_name(Q), fun (Queue) ->
                    [{_, Sent}] = rabbit_amqqueue:info(Queue, [messages_unacknowledged]),
                    {ok, Count} = rabbit_amqqueue:delete(Queue, false, false, <<"chaos">>),
                    {ok, Count + Sent}
                end) of
               {ok, Count} -> Count;
               _ -> 0
           end || Q <- rabbit_amqqueue:list(), not amqqueue:is_exclusive(Q)]).
"""


class Artemis(Node):
    """ActiveMQ Artemis."""

    def __init__(self, name: str, port: int, log: Path) -> None:
        self._node = JavaBus(name, log)
        self._node.port = self.port = port

    def start(self) -> None:
        self._node.install()
        self._node.start()

    def kill(self) -> None:
        self._node.kill()

    def signal(self, name: str) -> None:
        self._node.signal(name)

    def wipe(self) -> None:
        with contextlib.suppress(RuntimeError):  # it may be dead
            self._node.signal("CONT")
        self._node.wipe()


def make(bus: str, folder: Path, port: int | None = None) -> Node:
    """A node of the bus of that name, which does not run yet."""
    port = port or lasting_port()
    if bus in RABBITMQ:
        return Rabbit(RABBITMQ[bus], port, folder / "node.log")
    if bus in JAVA:
        return Artemis(JAVA[bus], port, folder / "node.log")
    return Embedded(bus, port)
