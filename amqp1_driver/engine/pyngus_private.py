# SPDX-License-Identifier: Apache-2.0

"""Undocumented parts of pyngus that the engine uses; a test asserts that they exist."""

import logging
from typing import Any

import pyngus
from pyngus import connection as pyngus_connection


def pass_event(connection: pyngus.Connection, event: Any) -> None:
    """Pass an event of the connection or its transport to pyngus.

    pyngus itself takes events only from its own collector. The engine has another collector,
    because it processes the events of sessions, links and deliveries itself.
    """
    connection._handle_proton_event(event)


class _Failures(logging.Filter):
    """A filter that drops the line with which pyngus logs that a connection has failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Connection failed")


_FAILURES = _Failures()


def silence_failures() -> None:
    """Keep pyngus from logging failures: the engine's owner logs them, with the host."""
    log = pyngus_connection.LOG
    if _FAILURES not in log.filters:
        log.addFilter(_FAILURES)
