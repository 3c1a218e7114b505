# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Sockets and threads, no AMQP: the I/O thread and the ways to and from it."""

from amqp1_driver.eventloop.errors import (
    Cancelled,
    ConnectError,
    Disconnected,
    LoopClosed,
    MailboxFull,
    TlsError,
)
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.handler import TransportHandler
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.mailbox import Mailbox
from amqp1_driver.eventloop.resolver import offload, resolve
from amqp1_driver.eventloop.slots import Slot, claim
from amqp1_driver.eventloop.timers import Timer, TimerQueue
from amqp1_driver.eventloop.tls import TlsEngine, TlsParameters, make_context
from amqp1_driver.eventloop.transport import Transport
from amqp1_driver.eventloop.tunnel import ProxyParameters

__all__ = [
    "Cancelled",
    "ConnectError",
    "Disconnected",
    "EventLoop",
    "Future",
    "LoopClosed",
    "Mailbox",
    "MailboxFull",
    "ProxyParameters",
    "Slot",
    "Timer",
    "TimerQueue",
    "TlsEngine",
    "TlsError",
    "TlsParameters",
    "Transport",
    "TransportHandler",
    "claim",
    "make_context",
    "offload",
    "resolve",
]
