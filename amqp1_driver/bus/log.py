# SPDX-License-Identifier: Apache-2.0

"""The loggers of the bus, which escape line breaks in texts from peers. Any thread."""

from __future__ import annotations

import logging

#: Maximum number of characters of one text in a log line.
MAX_SHOWN = 1000


def printable(text: str) -> str:
    """Escape line breaks and all other unprintable characters; shorten a text over MAX_SHOWN."""
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in shown
    )


class _Printable(logging.Filter):
    """A filter that escapes the string arguments of each record: a peer may have chosen them."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                printable(value) if isinstance(value, str) else value for value in record.args
            )
        return True


_PRINTABLE = _Printable()


def logger(name: str) -> logging.Logger:
    """Return the logger of a module of the bus."""
    found = logging.getLogger(name)
    found.addFilter(_PRINTABLE)
    return found
