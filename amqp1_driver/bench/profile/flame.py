# SPDX-License-Identifier: Apache-2.0

"""A flame graph: one box for each call, whose width is its share of processor time. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape

from amqp1_driver.bench.profile import layers
from amqp1_driver.bench.profile.samples import Frame, Stack

_WIDTH, _ROW, _TOP, _CHARACTER = 1400.0, 17, 46, 6.6
_NARROWEST = 0.4
_COLOURS = (
    "#e8a33d",
    "#7fb069",
    "#d1603d",
    "#5b8e7d",
    "#8cb3d9",
    "#c98bb9",
    "#b5b682",
    "#e07a5f",
    "#81b29a",
    "#f2cc8f",
    "#9d8189",
    "#a3b18a",
    "#d4a373",
    "#90a8c3",
    "#cdb4db",
    "#bcb8b1",
    "#e5989b",
    "#6d9dc5",
)

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
    name = layers.of_module(frame.module) if frame is not None else None
    return "#dddddd" if name is None else _COLOURS[layers.LAYERS.index(name) % len(_COLOURS)]
