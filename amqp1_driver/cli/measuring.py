# SPDX-License-Identifier: Apache-2.0

"""The common parts of the commands that measure: arguments, output, exit status. Main thread."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from amqp1_driver.bench import plan

#: by the names of an option and its values: converter, choices, or arguments of add_argument();
#: default; text
Options = Mapping[str, tuple[Any, Any, str]]

OUTPUT: Options = {
    "--json FILE": ({}, None, "write all results to this file; -: standard output"),
    "--plot FILE": (
        {},
        None,
        "draw the results to this file (needs matplotlib: amqp1-driver[bench])",
    ),
}
STRICT: Options = {
    "--strict": ({"action": "store_true"}, None, "exit status 1 also if sending a message failed")
}

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


def add_command(
    subparsers: Any, name: str, words: str, texts: tuple[str, str], groups: Mapping[str, Options]
) -> None:
    """Add a subcommand with its options.

    :param words: help text of the subcommand
    :param texts: what stands above and below the options in its help
    :param groups: options by the title of their group; "": options without a group
    """
    parser = subparsers.add_parser(
        name,
        help=words,
        description=texts[0],
        epilog=texts[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for title, options in groups.items():
        group = parser.add_argument_group(title) if title else parser
        add_options(group, options)


def add_options(group: Any, options: Options) -> None:
    """Add options to a parser or group; the text of each gets its default, unless it names one."""
    for names, (how, default, words) in options.items():
        flag, *metavar = names.split()
        more = dict(how) if isinstance(how, dict) else {"type": how}
        if isinstance(how, tuple):
            more = {"choices": how}
        if metavar:
            more["metavar"] = tuple(metavar) if len(metavar) > 1 else metavar[0]
        if default is not None:
            more["default"] = default
        if default and "default: " not in words:
            values = default if isinstance(default, list) else [default]
            shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
            words = f"{words} (default: {','.join(shown)})"
        group.add_argument(flag, help=words, **more)


def check_output(args: argparse.Namespace) -> None:
    """Check the options for files now, before an hour of measuring.

    :raises ValueError: a file name does not fit
    :raises OSError: a folder does not exist
    """
    if args.plot:
        from amqp1_driver.bench import plot

        plot.check(args.plot)
    for option in ("json", "rst"):
        path = getattr(args, option, None)
        if path and path != "-" and not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(f"--{option} {path}: there is no such folder")


def play(
    session: Any, args: argparse.Namespace, draw: Callable[[dict[str, Any], str], None]
) -> None:
    """Run a benchmark, print its tables, and write its document, also if an exception ends it.

    If the document goes to standard output (``-``), the tables go to standard error.

    :param draw: function that draws a document into a file
    """
    apart = contextlib.redirect_stdout(sys.stderr) if args.json == "-" else None
    try:
        with apart or contextlib.nullcontext():
            session.play()
    finally:
        if args.json:
            text = json.dumps(session.document, indent=1) + "\n"
            if args.json == "-":
                sys.stdout.write(text)
            else:
                Path(args.json).write_text(text, encoding="utf-8")
    if args.plot and session.document["scenarios"]:
        draw(session.document, args.plot)


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


#: options of the commands that compare drivers
COMPARED: Options = {
    "--option [LABEL:]GROUP.NAME=VALUE": (
        {"action": "append"},
        [],
        "set a configuration option, for all drivers or for one; may be repeated",
    ),
    "--rounds N": (positive, 1, "number of runs of each scenario with each driver"),
}
SIZES: Options = {
    "--size B,...": (
        several(checked(plan.size)),
        [100],
        "size of the payload in bytes, as 16K,1M; several values: a scenario for each",
    )
}
