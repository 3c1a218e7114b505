# SPDX-License-Identifier: Apache-2.0

"""Samples of Python stacks: their files, the layers of the code, and flame graphs.

Pure, except that it reads source files.
"""

from __future__ import annotations

import functools
import linecache
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/(.+)")
_STANDARD = re.compile(r".*/lib(?:64)?/python\d\.\d+/(.+)")
_CHECKOUT = re.compile(r".*/(amqp1_driver/.+)")
#: prefix of the path of a module of the standard library
STANDARD = "python:"


class Frame(NamedTuple):
    """One call on a stack.

    :param path: path of the source file, as the interpreter knows it
    """

    path: str
    line: int
    function: str

    @property
    def module(self) -> str:
        """Return the path of the source file, beginning with the package."""
        return module(self.path)

    @property
    def name(self) -> str:
        """Return the function with its module: ``module:function``."""
        return f"{module(self.path)}:{self.function}"

    @property
    def text(self) -> str:
        """Return the line of the source; "" if it cannot be read."""
        return source(self.path, self.line)


#: the calls of a thread, the outermost first
Stack = tuple[Frame, ...]


@functools.cache
def module(path: str) -> str:
    """Return a file's path from its package on; ``STANDARD`` precedes Python's own modules."""
    found = _PACKAGES.match(path)
    if found:
        return found[1]
    found = _STANDARD.match(path)
    if found:
        return STANDARD + found[1]
    found = _CHECKOUT.match(path)
    return found[1] if found else path


@functools.cache
def source(path: str, line: int) -> str:
    """Return one line of a file; "" if it cannot be read."""
    return linecache.getline(path, line).strip()


def parse(lines: Iterable[str]) -> Counter[Stack]:
    """Count how often each stack occurs; omit the last one if it is cut off."""
    stacks: Counter[Stack] = Counter()
    frames: list[Frame] | None = None
    line = ""
    for line in lines:
        if line.startswith(("Stack ", "Current thread ", "Thread ")):
            if frames is not None:
                stacks[tuple(reversed(frames))] += 1
            frames = []
        elif frames is not None and line.endswith("\n"):
            found = _FRAME.match(line)
            if found:
                frames.append(Frame(found[1], int(found[2]), found[3].rstrip("\n")))
    if frames is not None and line.endswith("\n"):
        stacks[tuple(reversed(frames))] += 1
    return stacks


def folded(stacks: Counter[Stack]) -> list[str]:
    """Return lines "outer;inner COUNT", which flame graph tools and speedscope read."""
    sums: Counter[str] = Counter()
    for stack, count in stacks.items():
        sums[";".join(frame.name.replace(";", ",") for frame in stack) or "(no Python)"] += count
    return [f"{names} {count}" for names, count in sorted(sums.items())]


# -- layers --------------------------------------------------------------------------------

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
    return next(filter(None, (of_module(frame.module) for frame in reversed(stack))), OTHER)


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


# -- flame graphs --------------------------------------------------------------------------

_WIDTH, _ROW, _TOP, _CHARACTER = 1400.0, 17, 46, 6.6
_NARROWEST = 0.4
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"\
 viewBox="0 0 {width:.0f} {height}" font-family="monospace" font-size="11">
<style>g:hover > rect {{ stroke: black }} g {{ cursor: pointer }}</style>
<rect width="100%" height="100%" fill="white"/>
<text x="{middle:.0f}" y="18" text-anchor="middle" font-size="15">{title}</text>
<text x="{middle:.0f}" y="36" text-anchor="middle">{note}</text>
"""

#: a click makes a box as wide as the picture, a click on the lowest row undoes that
_SCRIPT = """<script><![CDATA[
const boxes = [...document.querySelectorAll("g")].map(g => ({g, x: +g.dataset.x, w: +g.dataset.w}));
for (const clicked of boxes) clicked.g.addEventListener("click", () => {
  const factor = TOTAL / clicked.w;
  for (const {g, x, w} of boxes) {
    const left = (x - clicked.x) * factor, wide = w * factor;
    const seen = left + wide > 0.01 && left < TOTAL - 0.01;
    g.style.display = seen ? "" : "none";
    if (!seen) continue;
    const start = Math.max(0, left), end = Math.min(TOTAL, left + wide);
    const rect = g.querySelector("rect"), text = g.querySelector("text");
    rect.setAttribute("x", start); rect.setAttribute("width", end - start);
    text.setAttribute("x", start + 3);
    const room = Math.floor((end - start - 6) / CHARACTER);
    text.textContent = room < 3 ? "" : g.dataset.name.slice(0, room);
  }
});
]]></script>
"""


@dataclass
class _Node:
    name: str
    frame: Frame | None = None
    count: int = 0
    below: dict[str, _Node] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 1 + max((node.depth for node in self.below.values()), default=0)


def tree(stacks: Counter[Stack]) -> _Node:
    """Merge all stacks by function into one tree, and return its root."""
    root = _Node("all")
    for stack, count in stacks.items():
        node = root
        node.count += count
        for frame in stack:
            node = node.below.setdefault(frame.name, _Node(frame.name, frame))
            node.count += count
    return root


def draw(stacks: Counter[Stack], title: str) -> str:
    """Return the picture as SVG; a browser shows the share of the box below the mouse pointer."""
    root = tree(stacks)
    height = _TOP + root.depth * _ROW + 10
    note = f"{root.count} samples of processor time; click a call to enlarge it"
    parts = [
        _HEAD.format(width=_WIDTH, height=height, middle=_WIDTH / 2, title=escape(title), note=note)
    ]
    if root.count:
        _boxes(parts, root, 0.0, height - 10 - _ROW, _WIDTH / root.count, root.count)
    script = _SCRIPT.replace("TOTAL", f"{_WIDTH:.0f}").replace("CHARACTER", f"{_CHARACTER}")
    return "".join([*parts, script, "</svg>\n"])


def _boxes(parts: list[str], node: _Node, x: float, y: int, scale: float, total: int) -> None:
    width = node.count * scale
    if width < _NARROWEST:
        return
    name = escape(node.name, quote=True)
    room = int((width - 6) / _CHARACTER)
    short = node.name.rpartition("/")[2]
    shown = escape(short[:room]) if room >= 3 else ""
    parts.append(
        f'<g data-x="{x:.2f}" data-w="{width:.2f}" data-name="{escape(short)}"><title>{name}: '
        f"{100 * node.count / total:.1f} %, {node.count} samples</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 1}" rx="1" '
        f'fill="{_colour(node.frame)}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12}">{shown}</text></g>\n'
    )
    for name in sorted(node.below):
        below = node.below[name]
        _boxes(parts, below, x, y - _ROW, scale, total)
        x += below.count * scale


def _colour(frame: Frame | None) -> str:
    """Return the colour of the frame's layer; grey if the frame belongs to no layer."""
    name = of_module(frame.module) if frame is not None else None
    if name is None:
        return "#dddddd"
    # the golden angle keeps the hues of neighbours apart
    return f"hsl({LAYERS.index(name) * 137.5 % 360:.0f}, 55%, 68%)"
