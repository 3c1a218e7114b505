# SPDX-License-Identifier: Apache-2.0

"""The common parts of the commands that measure: arguments, output, exit status. Main thread."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

#: packages of the extra "bench" that a measurement cannot do without
_EXTRA = ("psutil",)


def guarded(command: str, measure: Callable[[], int]) -> int:
    """Run ``measure``, and write the error that it raises to standard error.

    :returns: exit status: the result of ``measure``; 130 after ^C or SIGTERM; 2 for a ValueError,
        which is a wrong argument; 1 for Trouble, OSError or a package that is not installed
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
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        print(
            f"amqp1 {command}: {error.name} is not installed: pip install 'amqp1-driver[bench]'",
            file=sys.stderr,
        )
        return 1
    except ValueError as error:
        print(f"amqp1 {command}: {error}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as ^C does; do nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tables(path: str | None) -> contextlib.AbstractContextManager[object]:
    """Send tables to standard error if the JSON document goes to standard output (``-``)."""
    if path == "-":
        return contextlib.redirect_stdout(sys.stderr)
    return contextlib.nullcontext()


def write(path: str | None, document: dict[str, Any]) -> None:
    """Write the document as JSON; ``-`` is standard output, None writes nothing."""
    if path is None:
        return
    text = json.dumps(document, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def checked(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a converter that keeps the text of a ValueError, which argparse would discard."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return a converter that accepts one of these words."""

    def converted(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return converted


def several(convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a converter for values with commas between them."""
    return lambda text: [convert(part) for part in text.split(",")]


def positive(text: str) -> int:
    """Convert a text to a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def seconds(text: str) -> float:
    """Convert a text to a positive number below a million."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
