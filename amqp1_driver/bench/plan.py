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

"""What is to be measured: drivers, scenarios, and the order of the runs. Pure but for ``venv``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

OPERATIONS = ("call", "cast", "fanout", "notify")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|ki|mi|kib|mib)?b?", re.IGNORECASE)
_LABEL = re.compile(r"([A-Za-z][\w. -]*)=(?=[a-z0-9+]+:)")
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20}
#: operations that not every pseudo-URL knows
_LIMITED = {"tcp": ("call", "cast"), "proton": ("call", "cast")}


@dataclass(frozen=True, slots=True)
class Entry:
    """One driver on one bus.

    :param label: its name in tables
    :param url: transport URL; "SCHEME:" or "SCHEME:?QUERY" stands for the bus of the benchmark
    :param python: the interpreter that measures it
    :param kind: module of ``workers``: messaging, floor, tcp or raw
    :param options: of oslo.config, each "group.name=value"
    """

    label: str
    url: str
    python: str
    kind: str = "messaging"
    options: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return re.sub(r"(//[^/@]*?:)[^/@]*@", r"\1***@", self.url)

    @property
    def needs_bus(self) -> bool:
        """Whether the URL leaves the bus to the benchmark."""
        url = self.url.removeprefix("proton:")
        return self.kind in ("messaging", "raw") and not urlsplit(url).netloc

    def lacks(self, operation: str) -> bool:
        """Whether it can't do that."""
        return operation not in _LIMITED.get(self.url.partition(":")[0], OPERATIONS)

    def on(self, address: str) -> str:
        """The complete URL, on the bus at HOST:PORT or USER:PASSWORD@HOST:PORT."""
        url = self.url.removeprefix("proton:")
        if not self.needs_bus:
            return url
        scheme, _, rest = url.partition(":")
        return f"{scheme or 'amqp'}://{address}/{rest.lstrip('/')}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What every driver has to do.

    :param threads: of each client
    :param size: of the payload, bytes
    :param reply: size of a call's reply; None: the payload goes back
    :param seconds: how long; 0: until ``count`` messages are sent
    :param rate: messages per second of all clients together; 0: as fast as it goes
    """

    operation: str
    threads: int = 8
    clients: int = 1
    servers: int = 1
    size: int = 100
    reply: int | None = None
    seconds: float = 5.0
    count: int = 0
    rate: float = 0.0

    @property
    def title(self) -> str:
        """In words."""
        parts = [f"{self.operation}, {_plural(self.threads, 'thread')}, {size_text(self.size)}"]
        if self.reply is not None and self.operation == "call":
            parts.append(f"replies of {size_text(self.reply)}")
        if self.clients > 1:
            parts.append(f"{self.clients} clients")
        if self.servers > 1:
            parts.append(f"{self.servers} servers")
        if self.rate:
            parts.append(f"{self.rate:g}/s")
        return ", ".join(parts)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def size(text: str) -> int:
    """Bytes from "100", "16K" or "1M" (KiB, MiB); ValueError if it is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size, as 100, 16K or 1M")
    return int(float(found[1]) * _FACTORS[(found[2] or "").lower()[:1]])


def size_text(number: int) -> str:
    """A size as people write it."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number // factor} {unit}"
    return f"{number} B"


def entry(text: str) -> Entry:
    """From [LABEL=]URL[@VENV]; ValueError if the virtual environment is not there."""
    found = _LABEL.match(text)
    label = found[1].strip() if found else ""
    url, python, folder = venv(text[found.end() :] if found else text)
    scheme = url.partition(":")[0]
    if ":" not in url:
        raise ValueError(f"{text!r} is not [LABEL=]URL[@VENV]; a URL begins with SCHEME:")
    kind = {"floor": "floor", "tcp": "tcp", "proton": "raw"}.get(scheme, "messaging")
    return Entry(label or (f"{scheme}@{folder}" if folder else scheme), url, python, kind)


def venv(text: str) -> tuple[str, str, str]:
    """URL, interpreter and name of the folder from URL[@VENV].

    What follows the last @ is a virtual environment if it is a folder with bin/python, and has to
    be one if it begins as a path does; else it belongs to the URL.
    """
    url, at, folder = text.rpartition("@")
    path = Path(folder).expanduser()
    if at and folder:
        python = path / "bin" / "python"
        if python.exists():
            return url, str(python.absolute()), path.name
        if folder[0] in "/.~":
            raise ValueError(f"no virtual environment (bin/python) in {folder}")
    return text, sys.executable, ""


def unique(entries: Sequence[Entry]) -> list[Entry]:
    """The same, with a number behind labels that come again."""
    seen: dict[str, int] = {}
    result = []
    for item in entries:
        seen[item.label] = seen.get(item.label, 0) + 1
        number = seen[item.label]
        label = item.label if number == 1 else f"{item.label} #{number}"
        result.append(Entry(label, item.url, item.python, item.kind, item.options))
    return result


def with_options(entries: Sequence[Entry], options: Sequence[str]) -> list[Entry]:
    """Give each its options: "group.name=value" for all, "LABEL:group.name=value" for one.

    :raises ValueError: a label is nobody's, or there is no "="
    """
    labels = {item.label for item in entries}
    given: dict[str, list[str]] = {label: [] for label in labels}
    for text in options:
        name, equals, _ = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not [LABEL:]group.name=value")
        label, colon, _ = name.rpartition(":")
        if colon and label not in labels:
            raise ValueError(f"no driver is called {label!r}: {', '.join(sorted(labels))}")
        for each in [label] if colon else labels:
            given[each].append(text[len(label) + 1 :] if colon else text)
    return [
        Entry(item.label, item.url, item.python, item.kind, tuple(given[item.label]))
        for item in entries
    ]


def interleave(entries: Sequence[Entry], rounds: int) -> Iterator[tuple[int, Entry]]:
    """Rounds from 1, in each of them every driver in turn: A B C A B C."""
    for number in range(1, rounds + 1):
        for item in entries:
            yield number, item
