# SPDX-License-Identifier: Apache-2.0

"""The layer of the code to which a stack belongs. Pure, except that it reads source files."""

from __future__ import annotations

import functools
import linecache
import re
from collections import Counter
from collections.abc import Mapping

from amqp1_driver.bench.profile.samples import STANDARD, Frame, Stack

SYNC = "thread synchronisation, interpreter lock"
SYSTEM = "system calls: socket, poll, wake-up"
PROTON_C = "proton: C functions, and the driver's module in C"
JSON = "json"
OTHER = "other"

#: beginning of a module's path -> layer; the first match counts
_RULES = (
    ("amqp1_driver/bench/", "the benchmark itself"),
    ("oslo_messaging/_drivers/base.py", "oslo.messaging"),
    ("oslo_messaging/_drivers/common.py", "oslo.messaging"),
    ("oslo_messaging/_drivers/", "driver: one of oslo.messaging's"),
    ("oslo_messaging/", "oslo.messaging"),
    ("oslo_serialization/", JSON),
    ("oslo_", "other oslo libraries"),
    ("debtcollector/", "other oslo libraries"),
    ("stevedore/", "other oslo libraries"),
    ("futurist/", "futurist: the server's threads"),
    (f"{STANDARD}concurrent/", "futurist: the server's threads"),
    ("amqp1_driver/codec/", "driver: codec"),
    ("amqp1_driver/addressing/", "driver: codec"),
    ("amqp1_driver/policy/", "driver: policy"),
    ("amqp1_driver/connection/", "driver: protocol"),
    ("amqp1_driver/engine/", "driver: protocol"),
    ("amqp1_driver/provisioning/", "driver: protocol"),
    ("amqp1_driver/eventloop/", "driver: event loop"),
    ("amqp1_driver/client/network.py", "driver: event loop"),
    ("amqp1_driver/", "driver: application side"),
    ("pyngus/", "pyngus"),
    ("proton/", "proton: its Python binding"),
    ("cproton", "proton: its Python binding"),
    ("kombu/", "kombu, amqp"),
    ("amqp/", "kombu, amqp"),
    ("eventlet/", "eventlet"),
    ("greenlet/", "eventlet"),
    (f"{STANDARD}json/", JSON),
)
#: all layers, in the order of the tables
LAYERS = tuple(dict.fromkeys([*(layer for _, layer in _RULES), PROTON_C, SYSTEM, SYNC, OTHER]))

_SYNC = re.compile(
    r"\.(acquire|release|__enter__|__exit__|wait|notify|notify_all)\("
    r"|\bwith .*\b_?(\w*lock|mutex|cond|condition|not_empty|not_full|all_tasks_done)\b.*:"
)
_SYSTEM = re.compile(
    r"\b(send|sendall|recv|recv_into|poll|select|accept|eventfd_write|eventfd_read)\("
    r"|\bself\._(write|read)\(\)"
)
#: modules in which a line may be a system call
_CALLS = (
    "amqp1_driver/eventloop/",
    "oslo_messaging/_drivers/",
    "pyngus/sockets",
    "amqp/",
    "kombu/",
    "eventlet/",
    f"{STANDARD}socket.py",
    f"{STANDARD}ssl.py",
    f"{STANDARD}selectors.py",
)
#: calls of the driver's module in C, whose functions have no Python frame
_SPEEDUPS = re.compile(r"\b_speedups\.\w+\(|\bpath\.(may_send|credit|flow|send|settle|push|pump)\(")
#: modules of the event loop, whose ``_run`` is on each stack of the I/O thread
_LOOP = re.compile(r".*\beventloop/")
_ALIAS = re.compile(r"^(\w+) = (?:(?:lib|ffi)\.\w+|\w+\(\"pn_\w+\".*\))$", re.MULTILINE)


def layer(stack: Stack) -> str:
    """Return the layer of the innermost call that has one.

    Code that all layers share, such as contextlib, counts for its caller.
    """
    if not stack:
        return OTHER
    inner = stack[-1]
    text = inner.text
    if _SYNC.search(text):
        return SYNC
    if inner.module.startswith(_CALLS) and _SYSTEM.search(text):
        return SYSTEM
    calls = _c_calls(inner.path)
    if calls is not None and calls.search(text):
        return PROTON_C
    if inner.module.startswith(
        ("amqp1_driver/connection/", "amqp1_driver/engine/")
    ) and _SPEEDUPS.search(text):
        return PROTON_C
    return next(filter(None, map(_ruled, reversed(stack))), OTHER)


def shares(stacks: Counter[Stack]) -> dict[str, float]:
    """Return each layer's share of the samples, in the order of ``LAYERS``; omit empty layers."""
    total = sum(stacks.values())
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[layer(stack)] += count
    return {name: found[name] / total for name in LAYERS if found[name]}


def io_thread(stacks: Counter[Stack]) -> float:
    """Return the share of the samples that were taken on the driver's I/O thread."""
    total = sum(stacks.values())
    found = sum(count for stack, count in stacks.items() if any(map(_is_loop, stack)))
    return found / total if total else 0.0


def functions(stacks: Counter[Stack], limit: int) -> list[Mapping[str, object]]:
    """Return the functions with the most processor time of their own, in descending order.

    :param limit: number of functions at most
    :returns: a mapping for each function: ``function``: its name; ``own``: its share of the
        samples; ``total``: its share with the functions that it calls; ``line``, ``text``: number
        and source of its line with the most samples; ``layer``: the layer of most of its samples
    """
    total = sum(stacks.values())
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    lines: dict[str, Counter[Frame]] = {}
    kinds: dict[str, Counter[str]] = {}
    for stack, count in stacks.items():
        for name in {frame.name for frame in stack}:
            below[name] += count
        if stack:
            inner = stack[-1]
            own[inner.name] += count
            lines.setdefault(inner.name, Counter())[inner] += count
            kinds.setdefault(inner.name, Counter())[layer(stack)] += count
    return [
        {
            "function": name,
            "own": count / total,
            "total": below[name] / total,
            "line": lines[name].most_common(1)[0][0].line,
            "text": lines[name].most_common(1)[0][0].text,
            "layer": kinds[name].most_common(1)[0][0],
        }
        for name, count in own.most_common(limit)
    ]


def _is_loop(frame: Frame) -> bool:
    return frame.function == "_run" and _LOOP.match(frame.module) is not None


def _ruled(frame: Frame) -> str | None:
    return of_module(frame.module)


@functools.cache
def of_module(name: str) -> str | None:
    """Return the layer to which a module belongs; None for code that all layers share."""
    return next((layer for start, layer in _RULES if name.startswith(start)), None)


@functools.cache
def _c_calls(path: str) -> re.Pattern[str] | None:
    """Return a pattern of the calls in which a module uses its short names of C functions.

    Such names are ``_send = lib.pn_link_send`` or ``_send = exported("pn_link_send", c_int)``.

    :returns: None if the module has no such name
    """
    names = _ALIAS.findall("".join(linecache.getlines(path)))
    return re.compile(rf"\b(?:{'|'.join(names)})\(|\blib\.pn_") if names else None
