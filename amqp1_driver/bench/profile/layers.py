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

"""Which layer a stack belongs to. Pure, but for the sources that it reads."""

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

#: beginning of a module's path -> layer; the first that fits
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
    ("amqp1_driver/protocol/", "driver: protocol"),
    ("amqp1_driver/eventloop/", "driver: event loop"),
    ("amqp1_driver/port.py", "driver: event loop"),
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
#: in the order of tables
LAYERS = tuple(dict.fromkeys([*(layer for _, layer in _RULES), PROTON_C, SYSTEM, SYNC, OTHER]))

_SYNC = re.compile(
    r"\.(acquire|release|__enter__|__exit__|wait|notify|notify_all)\("
    r"|\bwith .*\b_?(\w*lock|mutex|cond|condition|not_empty|not_full|all_tasks_done)\b.*:"
)
_SYSTEM = re.compile(
    r"\b(send|sendall|recv|recv_into|poll|select|accept|eventfd_write|eventfd_read)\("
    r"|\bself\._(write|read)\(\)"
)
#: modules whose lines may be system calls
_CALLS = (
    "amqp1_driver/eventloop/", "oslo_messaging/_drivers/", "pyngus/sockets", "amqp/", "kombu/",
    "eventlet/", f"{STANDARD}socket.py", f"{STANDARD}ssl.py", f"{STANDARD}selectors.py",
)  # fmt: skip
#: functions of the driver's module in C, which no frame of their own shows
_COMPILED = re.compile(r"\b_compiled\.\w+\(|\bpath\.(may_send|credit|flow)\(")
#: the loop's own waking of others
_LOOP = re.compile(r".*\beventloop/")
_ALIAS = re.compile(r"^(\w+) = (?:(?:lib|ffi)\.\w+|\w+\(\"pn_\w+\"\))$", re.MULTILINE)


def layer(stack: Stack) -> str:
    """The layer of the innermost call that has one; what is shared, such as contextlib, is its
    caller's."""
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
    if inner.module.startswith("amqp1_driver/protocol/") and _COMPILED.search(text):
        return PROTON_C
    return next(filter(None, map(_ruled, reversed(stack))), OTHER)


def shares(stacks: Counter[Stack]) -> dict[str, float]:
    """Each layer's part of the samples, in the order of ``LAYERS``; those without any left out."""
    total = sum(stacks.values())
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[layer(stack)] += count
    return {name: found[name] / total for name in LAYERS if found[name]}


def io_thread(stacks: Counter[Stack]) -> float:
    """The part of the driver's I/O thread."""
    total = sum(stacks.values())
    found = sum(count for stack, count in stacks.items() if any(map(_is_loop, stack)))
    return found / total if total else 0.0


def functions(stacks: Counter[Stack], limit: int) -> list[Mapping[str, object]]:
    """Those with the most processor time of their own: name, own share, share with what they
    call, line with the most, layer."""
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
            "function": name, "own": count / total, "total": below[name] / total,
            "line": lines[name].most_common(1)[0][0].line,
            "text": lines[name].most_common(1)[0][0].text,
            "layer": kinds[name].most_common(1)[0][0],
        }
        for name, count in own.most_common(limit)
    ]  # fmt: skip


def _is_loop(frame: Frame) -> bool:
    return frame.function == "_run" and _LOOP.match(frame.module) is not None


def _ruled(frame: Frame) -> str | None:
    return of_module(frame.module)


@functools.cache
def of_module(name: str) -> str | None:
    """The layer that a module belongs to, None for what is shared."""
    return next((layer for start, layer in _RULES if name.startswith(start)), None)


@functools.cache
def _c_calls(path: str) -> re.Pattern[str] | None:
    """Calls of the functions to which a module gives short names: ``_send = lib.pn_link_send``
    or ``_send = held("pn_link_send")``."""
    names = _ALIAS.findall("".join(linecache.getlines(path)))
    return re.compile(rf"\b(?:{'|'.join(names)})\(|\blib\.pn_") if names else None
