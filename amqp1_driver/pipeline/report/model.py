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

"""What a report is made of: plain values, without any drawing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

#: what a cell of a table or a key figure may be; None is shown as a dash
Value: TypeAlias = str | int | float | bool | datetime | None
#: a place on an axis of lines; datetimes make an axis of time, in UTC
Place: TypeAlias = float | datetime

#: More points than this in a series would be neither seen nor printed.
MOST_POINTS = 20_000


@dataclasses.dataclass(frozen=True)
class Axis:
    """What an axis shows, its unit ("" for none) and whether it is logarithmic.

    A logarithmic axis leaves out what is not above 0.
    """

    label: str
    unit: str = ""
    log: bool = False

    def __str__(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclasses.dataclass(frozen=True)
class Mark:
    """A straight line that says what a value means, such as a limit: across at ``value`` of y,
    or upright at ``value`` of x."""

    label: str
    value: Place
    upright: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """One line; None in ``y`` leaves a gap. ``low`` and ``high`` draw a band around it.

    :raises ValueError: not as many values of each, or too many to draw
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
            raise ValueError(f"series {self.name!r} has {len(self.x)} points, more than "
                             f"{MOST_POINTS}: aggregate it first")


@dataclasses.dataclass(frozen=True)
class Lines:
    """Lines over a common x."""

    title: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    caption: str = ""
    #: the y axis begins at 0, where it is not logarithmic
    from_zero: bool = True


@dataclasses.dataclass(frozen=True)
class Bars:
    """Bars of one or several groups, side by side or stacked, for each category.

    :param groups: name of the group -> a value for each category; None draws none
    :param across: the bars lie, for categories with long names
    :raises ValueError: a group has not as many values as there are categories
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
                raise ValueError(f"bars {self.title!r}: group {name!r} has {len(values)} values "
                                 f"for {len(self.categories)} categories")


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Counts of classes; n + 1 edges, which rise, for n counts.

    :param counts: name of the series -> its counts
    :raises ValueError: edges and counts do not go together
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
                raise ValueError(f"histogram {self.title!r}: {name!r} has {len(counts)} counts "
                                 f"for {len(self.edges)} edges")


@dataclasses.dataclass(frozen=True)
class Heatmap:
    """Values in a grid; ``values[row][column]``, None leaves the cell empty.

    :param rows: names, from above
    :param unit: of the values
    :param written: the values stand in the cells
    :raises ValueError: the grid is not as large as its names
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
            raise ValueError(f"heatmap {self.title!r} is not {len(self.rows)} rows of "
                             f"{len(self.columns)} values")


Plot: TypeAlias = Lines | Bars | Histogram | Heatmap


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: its name, its unit ("" for none), and how many decimals ("None": as fits).

    The unit "%" means that values are shares from 0 to 1; they are shown as per cent.
    """

    name: str
    unit: str = ""
    decimals: int | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of values. An empty one is shown as ``empty``.

    :raises ValueError: a row has not as many values as there are columns
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    empty: str = "None."

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: {len(row)} values for "
                                 f"{len(self.columns)} columns: {row!r}")


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
    """Paragraphs, separated by an empty line. Plain text: nothing in it is markup."""

    text: str
    #: stands out: something to be aware of
    warning: bool = False


Part: TypeAlias = Facts | Text | Table | Lines | Bars | Histogram | Heatmap


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    title: str
    parts: Sequence[Part]
    intro: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """The whole. ``made`` is shown where it is given, and is in no other way in the page."""

    title: str
    sections: Sequence[Section]
    subtitle: str = ""
    made: datetime | None = None
