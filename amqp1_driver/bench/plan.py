# SPDX-License-Identifier: Apache-2.0

"""The plan of a benchmark: drivers, scenarios, and the order of the runs. Any thread.

All is pure except ``entry`` and ``venv``, which look at files; ``entry`` reads the environment too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from amqp1_driver.masking import given, masked, masked_option

#: Debian suites from which tools/rabbitmq.sh installs RabbitMQ, by kind of bus
RABBITMQ = {"rabbitmq-4.0": "trixie", "rabbitmq-4.3": "sid"}
#: kinds of buses that a benchmark starts
BUSES = ("router", "broker", *RABBITMQ)
OPERATIONS = ("call", "cast", "fanout", "notify")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|ki|mi|kib|mib)?b?", re.IGNORECASE)
#: a text that cannot hold a password, because it is neither a URL nor env:NAME nor file:PATH
_WORD = re.compile(r"[\w-]{1,32}")
_LABEL = re.compile(r"([A-Za-z][\w. -]*)=(?=[a-z0-9+]+:)")
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20}
#: operations of the schemes that do not support all ``OPERATIONS``
_LIMITED = {"tcp": ("call", "cast"), "proton": ("call", "cast")}


@dataclass(frozen=True, slots=True)
class Entry:
    """A driver on a bus.

    :param label: name in tables
    :param url: transport URL; "SCHEME:" or "SCHEME:?QUERY" stands for the bus of the benchmark
    :param python: path of the interpreter of its workers
    :param kind: module of ``workers``: messaging, floor, tcp or raw; amqp091: a plain client of
        AMQP 0.9.1, for ``bench-flow`` only
    :param options: options of oslo.config, each "group.name=value"
    """

    label: str
    url: str
    python: str
    kind: str = "messaging"
    options: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Return the URL without its secrets."""
        return masked(self.url)

    @property
    def shown_options(self) -> list[str]:
        """Return the options, with ``***`` for values that may be secret."""
        return [masked_option(option) for option in self.options]

    @property
    def needs_bus(self) -> bool:
        """Return whether the URL names no host, so that the benchmark has to provide the bus."""
        url = self.url.removeprefix("proton:")
        return self.kind in ("messaging", "raw", "amqp091") and not urlsplit(url).netloc

    def lacks(self, operation: str) -> bool:
        """Return whether the driver does not support this operation."""
        return operation not in _LIMITED.get(self.url.partition(":")[0], OPERATIONS)

    def on(self, address: str) -> str:
        """Return the complete URL.

        :param address: HOST:PORT or USER:PASSWORD@HOST:PORT, for a URL that names no host
        """
        url = self.url.removeprefix("proton:")
        if not self.needs_bus:
            return url
        scheme, _, rest = url.partition(":")
        return f"{scheme or 'amqp'}://{address}/{rest.lstrip('/')}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load that every driver has to carry.

    :param operation: one of ``OPERATIONS``
    :param threads: sending threads of each client
    :param clients: number of client processes
    :param servers: number of server processes
    :param size: size of the payload, bytes
    :param reply: size of a call's reply, bytes; None: the reply is the payload
    :param seconds: duration; 0: the clients stop when they have sent ``count`` messages
    :param count: messages of all clients together; 0: the clients stop after ``seconds``
    :param rate: messages per second of all clients together; 0: as fast as possible
    :param payload: kind of the payload, a key of ``workers.payload.SIZES``
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
    payload: str = "bytes"

    @property
    def title(self) -> str:
        """Return a description of the scenario, for tables and progress."""
        parts = [f"{self.operation}, {plural(self.threads, 'thread')}"]
        kind = "" if self.payload == "bytes" else f"{self.payload} "
        parts.append(f"{kind}{size_text(self.size)}")
        if self.reply is not None and self.operation == "call":
            parts.append(f"replies of {size_text(self.reply)}")
        if self.clients > 1:
            parts.append(f"{self.clients} clients")
        if self.servers > 1:
            parts.append(f"{self.servers} servers")
        if self.rate:
            parts.append(f"{self.rate:g}/s")
        return ", ".join(parts)


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, as "2 threads"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def size(text: str) -> int:
    """Return the number of bytes that "100", "16K" or "1M" (KiB, MiB) stands for.

    :raises ValueError: the text is no size
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size, as 100, 16K or 1M")
    return int(float(found[1]) * _FACTORS[(found[2] or "").lower()[:1]])


def size_text(number: int) -> str:
    """Format a number of bytes in the largest of MiB, KiB and B that gives a whole number."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number // factor} {unit}"
    return f"{number} B"


def entry(text: str) -> Entry:
    """Parse [LABEL=]URL[@VENV], where the URL may also be env:NAME or file:PATH.

    :raises ValueError: the text has another form, or the virtual environment, the variable or the
        file does not exist
    """
    found = _LABEL.match(text)
    label = found[1].strip() if found else ""
    url, python, folder = venv(text[found.end() :] if found else text)
    url = given(url)
    scheme = url.partition(":")[0]
    if ":" not in url:
        shown = text if _WORD.fullmatch(text) else masked(text)
        raise ValueError(f"{shown!r} is not [LABEL=]URL[@VENV]; a URL begins with SCHEME:")
    kind = {"floor": "floor", "tcp": "tcp", "proton": "raw", "amqp091": "amqp091"}.get(
        scheme, "messaging"
    )
    return Entry(label or (f"{scheme}@{folder}" if folder else scheme), url, python, kind)


def venv(text: str) -> tuple[str, str, str]:
    """Split URL[@VENV].

    The text after the last @ is a virtual environment if it is a folder with bin/python. It has to
    be one if it begins with "/", "." or "~". Otherwise it belongs to the URL.

    :returns: URL, path of the interpreter, name of the folder; without a virtual environment this
        interpreter and an empty name
    :raises ValueError: the text has to be a virtual environment, and there is none
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
    """Return the entries with unique labels: a repeated label gets a number, as "rabbit #2"."""
    seen: dict[str, int] = {}
    result = []
    for item in entries:
        seen[item.label] = seen.get(item.label, 0) + 1
        number = seen[item.label]
        label = item.label if number == 1 else f"{item.label} #{number}"
        result.append(replace(item, label=label))
    return result


def with_options(entries: Sequence[Entry], options: Sequence[str]) -> list[Entry]:
    """Return the entries with these options instead of their own.

    :param options: "group.name=value" for all entries, "LABEL:group.name=value" for one
    :raises ValueError: no entry has the label, or an option has no "="
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
    return [replace(item, options=tuple(given[item.label])) for item in entries]


def interleave(entries: Sequence[Entry], rounds: int) -> Iterator[tuple[int, Entry]]:
    """Yield round (from 1) and entry: each round has every driver in turn, as A B C A B C."""
    for number in range(1, rounds + 1):
        for item in entries:
            yield number, item
