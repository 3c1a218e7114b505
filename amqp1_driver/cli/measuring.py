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

"""What the commands that measure have in common: arguments, output, exit status."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any


def guarded(command: str, measure: Callable[[], int]) -> int:
    """The exit status: what ``measure`` returns, 130 after ^C or SIGTERM; for what it raises,
    said on standard error, 1, or 2 for arguments that can't be.
    """
    from amqp1_driver.bench.children import Trouble

    try:
        with terminable():
            return measure()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (Trouble, OSError) as error:
        print(f"amqp1 {command}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"amqp1 {command}: {error}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends things in order, as ^C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write(path: str | None, document: dict[str, Any]) -> None:
    """The document as JSON; ``-`` is standard output."""
    if path is None:
        return
    text = json.dumps(document, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def checked(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """For argparse, which swallows the text of a ValueError."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """One of these words."""

    def converted(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return converted


def several(convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Values with commas between them."""
    return lambda text: [convert(part) for part in text.split(",")]


def positive(text: str) -> int:
    """A number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def seconds(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
