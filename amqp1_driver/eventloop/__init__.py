# SPDX-License-Identifier: Apache-2.0

"""Sockets and threads without AMQP: the I/O thread, and the ways to and from the I/O thread."""

from amqp1_driver.eventloop.errors import (
    ConnectError,
    Disconnected,
    LoopClosed,
    MailboxFull,
    TlsError,
)
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.runtime import offload
from amqp1_driver.eventloop.tls import TlsParameters
from amqp1_driver.eventloop.transport import Transport, TransportHandler
from amqp1_driver.eventloop.tunnel import ProxyParameters
from amqp1_driver.eventloop.worker_slot import WorkerSlot, claim

__all__ = [
    "ConnectError",
    "Disconnected",
    "EventLoop",
    "Future",
    "LoopClosed",
    "MailboxFull",
    "ProxyParameters",
    "TlsError",
    "TlsParameters",
    "Transport",
    "TransportHandler",
    "WorkerSlot",
    "claim",
    "offload",
]
