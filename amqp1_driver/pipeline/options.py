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
"""Options as Spark hands them to a data source: strings, their names in whatever case. Pure.

Reading and writing have tables of their own (:class:`Known`) and say the same about what is wrong;
nothing that is said here holds the URL, in which a password may be.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

#: reads a value: name as documented and text; ValueError names both
Convert = Callable[[str, str], Any]
#: options of the driver's group in oslo.config: ``driver.ssl_ca_file``
DRIVER = "driver."
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Known:
    """The options that there are.

    :param entries: field, name as documented, and how to read it
    :param ignored: names in small letters that are others' and mean nothing here
    """

    def __init__(self, *entries: tuple[str, str, Convert], ignored: Collection[str] = ()) -> None:
        self._entries = {name.lower(): (field, name, convert) for field, name, convert in entries}
        self._ignored = frozenset(ignored)

    def parse(self, options: Mapping[str, str],
              *needed: str) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
        """Values by field, and options of the driver by name as they are.

        :param needed: names, as documented
        :raises ValueError: naming the option and the value at fault
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
    option = name[len(DRIVER):].lower()
    if not option:
        raise ValueError(f"option {name!r} names no option of the driver")
    return option


def text(name: str, given: str) -> str:
    """Anything but nothing."""
    if not given.strip():
        raise ValueError(f"option {name!r} is empty")
    return given.strip()


def folder(name: str, given: str) -> str:
    """A path of this machine, absolute: workers have other working directories."""
    scheme, colon, path = text(name, given).partition(":")
    if not colon or "/" in scheme:
        path = scheme + colon + path
    elif scheme.lower() != "file" or (path.startswith("//") and not path.startswith("///")):
        raise ValueError(f"option {name!r} = {given!r} is no path of this machine: the spool is "
                         "forced to disc by means that only mounted file systems have")
    return os.path.abspath(path)


def names(name: str, given: str) -> tuple[str, ...]:
    """One or more, with commas between, each once."""
    entries = tuple(entry.strip() for entry in given.split(",") if entry.strip())
    if not entries:
        raise ValueError(f"option {name!r} = {given!r} names none")
    if len(set(entries)) < len(entries):
        raise ValueError(f"option {name!r} = {given!r} names one twice")
    return entries


def number(least: int) -> Callable[[str, str], int]:
    """A whole number that is not less."""
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
    """A number that is not less; infinity is none."""
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
    """A whole number of milliseconds, as seconds."""
    return number(0)(name, given) / 1000


def truth(name: str, given: str) -> bool:
    """True or false."""
    if given.strip().lower() in _TRUE:
        return True
    if given.strip().lower() in _FALSE:
        return False
    raise ValueError(f"option {name!r} = {given!r} is neither true nor false")
