# SPDX-License-Identifier: Apache-2.0

"""The model of a report: plain values, without any drawing.

Pure, for any thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

#: the value of a table cell or a key figure; a report shows None as a dash
Value: TypeAlias = str | int | float | bool | datetime | None
#: a place on the x axis of lines; datetimes make it a time axis, in UTC
Place: TypeAlias = float | datetime

#: points of a series, at most; neither a screen nor a printer can show more
MOST_POINTS = 20_000


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis: its label, its unit ("" for none) and whether it is logarithmic.

    A logarithmic axis leaves out values of 0 or less.
    """

    label: str
    unit: str = ""
    log: bool = False

    def __str__(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclasses.dataclass(frozen=True)
class Mark:
    """A straight line that says what a value means, such as a limit.

    The line lies at ``value`` of y, or stands at ``value`` of x if ``upright`` is true.
    """

    label: str
    value: Place
    upright: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """One line; None in ``y`` leaves a gap. ``low`` and ``high`` draw a band around it.

    :raises ValueError: x, y, low and high differ in length, or are longer than :data:`MOST_POINTS`
    """

    name: str
    x: Sequence[Place]
    y: Sequence[float | None]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y)}
        if self.low or self.high:
            lengths |= {len(self.low), len(self.high)}
        if len(lengths) != 1:
            raise ValueError(f"series {self.name!r}: x, y, low and high differ in length")
        if len(self.x) > MOST_POINTS:
            raise ValueError(
                f"series {self.name!r} has {len(self.x)} points, more than "
                f"{MOST_POINTS}: aggregate it first"
            )


@dataclasses.dataclass(frozen=True)
class Lines:
    """A plot of lines over a common x axis."""

    title: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    caption: str = ""
    #: the y axis begins at 0, unless it is logarithmic
    from_zero: bool = True


@dataclasses.dataclass(frozen=True)
class Bars:
    """A plot with bars for each category, of one or several groups, side by side or stacked.

    :param groups: name of the group -> a value for each category; None draws no bar
    :param across: draw horizontal bars, for categories with long names
    :raises ValueError: a group has more or fewer values than there are categories
    """

    title: str
    categories: Sequence[str]
    groups: Mapping[str, Sequence[float | None]]
    y: Axis
    x: Axis = Axis("")
    stacked: bool = False
    across: bool = False
    marks: Sequence[Mark] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        for name, values in self.groups.items():
            if len(values) != len(self.categories):
                raise ValueError(
                    f"bars {self.title!r}: group {name!r} has {len(values)} values "
                    f"for {len(self.categories)} categories"
                )


@dataclasses.dataclass(frozen=True)
class Histogram:
    """A histogram: n counts between n + 1 rising edges.

    :param counts: name of the series -> its counts
    :raises ValueError: the edges do not rise, or their number does not fit that of the counts
    """

    title: str
    edges: Sequence[float]
    counts: Mapping[str, Sequence[float]]
    x: Axis
    y: Axis = Axis("count")
    marks: Sequence[Mark] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"histogram {self.title!r}: the edges do not rise")
        for name, counts in self.counts.items():
            if len(counts) + 1 != len(self.edges):
                raise ValueError(
                    f"histogram {self.title!r}: {name!r} has {len(counts)} counts "
                    f"for {len(self.edges)} edges"
                )


@dataclasses.dataclass(frozen=True)
class Heatmap:
    """A grid of values, ``values[row][column]``; None leaves the cell empty.

    :param rows: names of the rows, from the top
    :param value: label, unit and scale of the values
    :param written: write each value into its cell
    :raises ValueError: the size of the grid does not fit the names of its rows and columns
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    x: Axis
    y: Axis
    value: Axis
    written: bool = True
    caption: str = ""

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.values}
        if len(self.values) != len(self.rows) or widths - {len(self.columns)}:
            raise ValueError(
                f"heatmap {self.title!r} is not {len(self.rows)} rows of {len(self.columns)} values"
            )


Plot: TypeAlias = Lines | Bars | Histogram | Heatmap


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: its name, its unit ("" for none), and its decimals (None: as many as fit).

    The unit "%" means that values are shares from 0 to 1; a report shows them as per cent.
    """

    name: str
    unit: str = ""
    decimals: int | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of values; if it has no rows, a report shows the text ``empty`` instead.

    :raises ValueError: a row has more or fewer values than there are columns
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    empty: str = "None."

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}: {len(row)} values for "
                    f"{len(self.columns)} columns: {row!r}"
                )


@dataclasses.dataclass(frozen=True)
class Fact:
    """A key figure."""

    label: str
    value: Value
    unit: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """Key figures beside each other."""

    facts: Sequence[Fact]


@dataclasses.dataclass(frozen=True)
class Text:
    """Paragraphs of plain text, with an empty line between them; nothing in them is markup."""

    text: str
    #: the page highlights the text
    warning: bool = False


Part: TypeAlias = Facts | Text | Table | Lines | Bars | Histogram | Heatmap


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the page, with a heading."""

    title: str
    parts: Sequence[Part]
    intro: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A whole page. It shows the time ``made`` if there is one, and no other time of its own."""

    title: str
    sections: Sequence[Section]
    subtitle: str = ""
    made: datetime | None = None
