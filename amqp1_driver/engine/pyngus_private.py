# SPDX-License-Identifier: Apache-2.0

"""What the engine uses of pyngus beside its documented API; a test asserts that it exists."""

import logging
from typing import Any

import pyngus
from pyngus import connection as pyngus_connection


def pass_event(connection: pyngus.Connection, event: Any) -> None:
    """Pass an event of the connection or its transport to pyngus.

    pyngus takes events from a collector of its own only. The engine has another collector, because
    it processes the events of sessions, links and deliveries itself.
    """
    connection._handle_proton_event(event)


class _Failures(logging.Filter):
    """Drops the line with which pyngus logs that a connection has failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Connection failed")


_FAILURES = _Failures()


def silence_failures() -> None:
    """Keep pyngus from logging failures: the engine's owner does, with the name of the host."""
    log = pyngus_connection.LOG
    if _FAILURES not in log.filters:
        log.addFilter(_FAILURES)
