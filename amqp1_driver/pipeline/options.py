# SPDX-License-Identifier: Apache-2.0
"""Parsers of the options that Spark hands to a data source.  Pure; any thread.

Spark gives each option as a string, and its name in any case. Reading and writing each have their
own table of options (:class:`Known`) and share the texts of errors. No text contains the URL, which
may hold a password.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

#: a function that converts a value: takes the documented name and the text, returns the value;
#: its ValueError names both
Convert = Callable[[str, str], Any]
#: prefix of options of the driver's group in oslo.config, as in ``driver.ssl_ca_file``
DRIVER = "driver."
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Known:
    """A table of the options that a reader or writer knows.

    :param entries: for each option: field, documented name, and the function that converts it
    :param ignored: names in lower case of options that belong to others; the parser skips them
    """

    def __init__(self, *entries: tuple[str, str, Convert], ignored: Collection[str] = ()) -> None:
        self._entries = {name.lower(): (field, name, convert) for field, name, convert in entries}
        self._ignored = frozenset(ignored)

    def parse(
        self, options: Mapping[str, str], *needed: str
    ) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
        """Convert the options.

        :param options: texts by name, in any case
        :param needed: documented names of options that must be given
        :returns: values by field; and the driver's options, as sorted pairs of name and text
        :raises ValueError: an option is unknown, missing or wrong; the text names the option, and
            most often the value
        """
        values: dict[str, Any] = {}
        driver: list[tuple[str, str]] = []
        for name, text in options.items():
            key = name.lower()
            if key.startswith(DRIVER):
                driver.append((_driver_option(name), text))
            elif key in self._entries:
                field, spelling, convert = self._entries[key]
                values[field] = convert(spelling, text)
            elif key not in self._ignored:
                raise ValueError(f"option {name!r} is not known{self._similar(key)}")
        for name in needed:
            if self._entries[name.lower()][0] not in values:
                raise ValueError(f"option {name!r} is missing")
        return values, tuple(sorted(driver))

    def _similar(self, key: str) -> str:
        close = difflib.get_close_matches(key, self._entries, n=1)
        return f"; did you mean {self._entries[close[0]][1]!r}?" if close else ""


def _driver_option(name: str) -> str:
    option = name[len(DRIVER) :].lower()
    if not option:
        raise ValueError(f"option {name!r} names no option of the driver")
    return option


def text(name: str, given: str) -> str:
    """Return the text without surrounding spaces.

    :raises ValueError: the text is empty
    """
    if not given.strip():
        raise ValueError(f"option {name!r} is empty")
    return given.strip()


def folder(name: str, given: str) -> str:
    """Return a local path, made absolute because workers have other working directories.

    :raises ValueError: the value has a scheme other than ``file``, or names a host
    """
    scheme, colon, path = text(name, given).partition(":")
    if not colon or "/" in scheme:
        path = scheme + colon + path
    elif scheme.lower() != "file" or (path.startswith("//") and not path.startswith("///")):
        raise ValueError(
            f"option {name!r} = {given!r} is no path of this machine: the spool is "
            "forced to disc by means that only mounted file systems have"
        )
    return os.path.abspath(path)


def names(name: str, given: str) -> tuple[str, ...]:
    """Split a list of names at its commas.

    :raises ValueError: the list names none, or one of them twice
    """
    entries = tuple(entry.strip() for entry in given.split(",") if entry.strip())
    if not entries:
        raise ValueError(f"option {name!r} = {given!r} names none")
    if len(set(entries)) < len(entries):
        raise ValueError(f"option {name!r} = {given!r} names one twice")
    return entries


def number(least: int) -> Callable[[str, str], int]:
    """Return a parser of whole numbers that refuses numbers below ``least``."""

    def convert(name: str, given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            raise ValueError(f"option {name!r} = {given!r} is no whole number") from None
        if value < least:
            raise ValueError(f"option {name!r} = {given!r} is less than {least}")
        return value

    return convert


def seconds(least: float) -> Callable[[str, str], float]:
    """Return a parser of finite numbers that refuses numbers below ``least``."""

    def convert(name: str, given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"option {name!r} = {given!r} is no number")
        if value < least:
            raise ValueError(f"option {name!r} = {given!r} is less than {least:g}")
        return value

    return convert


def milliseconds(name: str, given: str) -> float:
    """Convert a whole number of milliseconds to seconds."""
    return number(0)(name, given) / 1000


def truth(name: str, given: str) -> bool:
    """Convert ``true``, ``yes``, ``on``, ``1`` and their opposites, in any case.

    :raises ValueError: the text is none of them
    """
    if given.strip().lower() in _TRUE:
        return True
    if given.strip().lower() in _FALSE:
        return False
    raise ValueError(f"option {name!r} = {given!r} is neither true nor false")
