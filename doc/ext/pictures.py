# SPDX-License-Identifier: Apache-2.0

"""Pictures of the documentation, drawn when it is built, by Python alone.

``state-diagram`` draws a table of ``amqp1_driver.connection.states`` and ``state-table`` lists it,
so that neither can differ from the code. ``sequence`` draws who sends what to whom. The result
is SVG inside the page; builders other than HTML leave the pictures out.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from amqp1_driver.connection import states

STYLE = (
    "<style>"
    ".p{font:13px sans-serif;fill:currentColor}"
    ".p .box{fill:#eef3f8;stroke:#456}.p .name{fill:#123;font-weight:bold}"
    ".p .line{stroke:#678;fill:none;stroke-width:1.3}.p .head{fill:#678}"
    ".p .label{font-size:11.5px;fill:#234}"
    ".p .halo{font-size:11.5px;fill:#fff;stroke:#fff;stroke-width:3.5px}"
    ".p .note{fill:#fdf6df;stroke:#ca9}.p .life{stroke:#aab;stroke-dasharray:3 4}"
    "</style>"
)

Point = tuple[float, float]


def svg(width: float, height: float, title: str, parts: list[str]) -> nodes.raw:
    """One picture with a title for those who cannot see it."""
    text = (
        f'<svg class="p" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'style="max-width:100%;height:auto;background:#fff">'
        f"<title>{escape(title)}</title>{STYLE}{''.join(parts)}</svg>"
    )
    return nodes.raw("", f'<p class="picture">{text}</p>', format="html")


def label(x: float, y: float, text: str, css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def label_on_line(x: float, y: float, text: str) -> str:
    """A label with a white rim, readable on top of lines."""
    return label(x, y, text, "halo") + label(x, y, text)


def box(x: float, y: float, width: float, height: float, css: str = "box") -> str:
    return (
        f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="6"/>'
    )


def head(tip: Point, angle: float) -> str:
    """The head of an arrow that arrives at ``tip`` in the direction ``angle``."""
    corners = [tip]
    for turn in (2.7, -2.7):
        corners.append((tip[0] + 9 * math.cos(angle + turn), tip[1] + 9 * math.sin(angle + turn)))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polygon class="head" points="{points}"/>'


# -- state tables ---------------------------------------------------------------------------

TABLES = {"CONNECTION": states.CONNECTION, "LINK": states.LINK}
STEP_X, STEP_Y, WIDTH, HEIGHT, MARGIN = 186.0, 128.0, 112.0, 38.0, 40.0


def edges(table: Any) -> dict[tuple[str, str], list[str]]:
    """(state, next state) -> events."""
    found: dict[tuple[str, str], list[str]] = {}
    for (state, event), following in table.items():
        found.setdefault((state.value, following.value), []).append(event.value)
    return found


class Diagram:
    """States at given places of a grid, and arrows between them."""

    def __init__(self, places: dict[str, Point], table: Any) -> None:
        self.centres = {
            name: (MARGIN + WIDTH / 2 + x * STEP_X, MARGIN + HEIGHT / 2 + y * STEP_Y)
            for name, (x, y) in places.items()
        }
        self.edges = edges(table)

    def draw(self, title: str) -> nodes.raw:
        lines, labels = [], []
        for (start, end), events in self.edges.items():
            line, text = self._loop(start) if start == end else self._edge(start, end)
            lines.append(line)
            labels.append(label_on_line(*text, " / ".join(events)))
        boxes = [
            box(x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT) + label(x, y + 5, name, "name")
            for name, (x, y) in self.centres.items()
        ]
        width = max(x for x, _ in self.centres.values()) + WIDTH / 2 + MARGIN + 40
        height = max(y for _, y in self.centres.values()) + HEIGHT / 2 + MARGIN
        return svg(width, height, title, [*lines, *boxes, *labels])

    def _loop(self, name: str) -> tuple[str, Point]:
        x, y = self.centres[name]
        right, top = x + WIDTH / 2, y - HEIGHT / 2
        path = f"M{right - 24:.1f},{top:.1f} C{right - 14:.1f},{top - 38:.1f} "
        path += f"{right + 40:.1f},{y - 20:.1f} {right:.1f},{y - 4:.1f}"
        line = f'<path class="line" d="{path}"/>' + head((right, y - 4), 2.75)
        return line, (right + 16, top - 22)

    def _edge(self, start: str, end: str) -> tuple[str, Point]:
        (ax, ay), (bx, by) = self.centres[start], self.centres[end]
        length = math.hypot(bx - ax, by - ay)
        # two arrows between the same states bend away from each other
        bend = 26.0 if (end, start) in self.edges else 0.0
        middle = (
            (ax + bx) / 2 - (by - ay) / length * bend,
            (ay + by) / 2 + (bx - ax) / length * bend,
        )
        tail, tip = self._border(start, middle), self._border(end, middle)
        path = f"M{tail[0]:.1f},{tail[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} "
        path += f"{tip[0]:.1f},{tip[1]:.1f}"
        line = f'<path class="line" d="{path}"/>'
        line += head(tip, math.atan2(tip[1] - middle[1], tip[0] - middle[0]))
        # nearer to where it begins: many arrows meet where they end
        along = 0.5 if bend or ay == by else 0.36
        x = (1 - along) ** 2 * tail[0] + 2 * along * (1 - along) * middle[0] + along**2 * tip[0]
        y = (1 - along) ** 2 * tail[1] + 2 * along * (1 - along) * middle[1] + along**2 * tip[1]
        return line, (x, y + (4 if abs(ay - by) > 1 else -6))

    def _border(self, name: str, towards: Point) -> Point:
        """Where the line from the middle of a box to a point leaves the box."""
        x, y = self.centres[name]
        dx, dy = towards[0] - x, towards[1] - y
        reach = min(
            WIDTH / 2 / abs(dx) if dx else math.inf, HEIGHT / 2 / abs(dy) if dy else math.inf
        )
        return x + dx * reach, y + dy * reach


def chosen(name: str) -> str:
    return directives.choice(name, tuple(TABLES))


class StateDiagram(SphinxDirective):
    """``.. state-diagram:: TABLE``; each line of the content is: name of a state, column, row."""

    required_arguments = 1
    option_spec = {"title": directives.unchanged_required}  # noqa: RUF012 - docutils' interface
    has_content = True

    def run(self) -> list[nodes.Node]:
        table = TABLES[self.arguments[0]]
        places: dict[str, Point] = {}
        for line in self.content:
            if line.strip():
                name, x, y = line.rsplit(maxsplit=2)
                places[name] = (float(x), float(y))
        wanted = {state.value for state, _ in table} | {state.value for state in table.values()}
        if wanted != set(places):
            raise self.error(f"places of {sorted(places)} for the states {sorted(wanted)}")
        return [Diagram(places, table).draw(self.options["title"])]


class StateTable(SphinxDirective):
    """``.. state-table:: TABLE``: all transitions as a list."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        table = TABLES[self.arguments[0]]
        rows = [["state", "event", "next state"]]
        rows += [[s.value, e.value, following.value] for (s, e), following in table.items()]
        group = nodes.tgroup(cols=3)
        group += [nodes.colspec(colwidth=1) for _ in range(3)]
        parts = [nodes.thead(), nodes.tbody()]
        for number, row in enumerate(rows):
            entries = [nodes.entry("", nodes.paragraph(text=text)) for text in row]
            parts[0 if number == 0 else 1] += nodes.row("", *entries)
        group += parts
        return [nodes.table("", group)]


# -- sequences --------------------------------------------------------------------------------

LANE, ROW = 190.0, 34.0


class Sequence(SphinxDirective):
    """``.. sequence:: A, B, C``: lifelines, and one line of content for each step.

    ``A -> B: text`` is an arrow, ``A --> B: text`` a dashed one, ``A: text`` a note.
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"title": directives.unchanged_required}  # noqa: RUF012 - docutils' interface
    has_content = True

    def run(self) -> list[nodes.Node]:
        names = [name.strip() for name in self.arguments[0].split(",")]
        lanes = {name: 90 + number * LANE for number, name in enumerate(names)}
        steps = [line for line in self.content if line.strip()]
        bottom = 70 + len(steps) * ROW
        parts = []
        for name, x in lanes.items():
            parts.append(f'<path class="life" d="M{x},44 V{bottom}"/>')
            parts.append(box(x - 70, 10, 140, 34) + label(x, 32, name, "name"))
        for number, line in enumerate(steps):
            parts.append(self._step(line, 70 + number * ROW, lanes))
        return [svg(180 + (len(names) - 1) * LANE, bottom + 10, self.options["title"], parts)]

    def _step(self, line: str, y: float, lanes: dict[str, float]) -> str:
        who, _, text = (part.strip() for part in line.partition(":"))
        for arrow, dash in (("-->", ' stroke-dasharray="5 4"'), ("->", "")):
            if arrow in who:
                start, _, end = (part.strip() for part in who.partition(arrow))
                a, b = self._lane(start, lanes), self._lane(end, lanes)
                angle = 0.0 if b > a else math.pi
                return (
                    f'<path class="line" d="M{a},{y} H{b}"{dash}/>'
                    + head((b, y), angle)
                    + label_on_line((a + b) / 2, y - 6, text)
                )
        x, width = self._lane(who, lanes), 16 + 6.4 * len(text)
        left = max(2.0, x - width / 2)
        return box(left, y - 17, width, 24, "note") + label(left + width / 2, y, text)

    def _lane(self, name: str, lanes: dict[str, float]) -> float:
        if name not in lanes:
            raise self.error(f"{name!r} is not one of {', '.join(lanes)}")
        return lanes[name]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("state-diagram", StateDiagram)
    app.add_directive("state-table", StateTable)
    app.add_directive("sequence", Sequence)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
