# SPDX-License-Identifier: Apache-2.0

"""Plots as SVG, which matplotlib draws without a window and without the global state of pyplot.

The text of a drawing remains text. A drawing depends on its plot only: it has no date and no random
identifiers. One thread at a time, because :func:`svg` sets matplotlib's global rcParams meanwhile.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from amqp1_driver.pipeline.report import colours
from amqp1_driver.pipeline.report.model import (
    Axis,
    Bars,
    Heatmap,
    Histogram,
    Lines,
    Mark,
    Place,
    Plot,
)
from amqp1_driver.pipeline.report.numbers import shown

#: inches; on a page the drawing is as wide as its column
WIDTH, HEIGHT = 7.2, 3.1
_BAR, _CELL = 0.24, 0.3
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
#: no line has markers if one of them has more points than this
_MARKED = 60
_LONGEST_NAME = 44
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "amqp1",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "text.parse_math": False,
}


def svg(plot: Plot, prefix: str = "") -> str:
    """Return a plot as an ``<svg>`` element.

    :param prefix: prefix of all identifiers in the drawing; drawings on one page need different
        ones
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(WIDTH, _height(plot)), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        if _empty(plot):
            _say_empty(axes)
        else:
            _DRAW[type(plot)](axes, plot)
        out = io.StringIO()
        figure.savefig(
            out,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _element(out.getvalue(), prefix)


def _height(plot: Plot) -> float:
    if _empty(plot):
        return 1.0
    if isinstance(plot, Heatmap):
        return max(1.8, 1.0 + _CELL * len(plot.rows))
    if isinstance(plot, Bars) and plot.across:
        beside = 1 if plot.stacked else len(plot.groups)
        return max(1.8, 0.9 + _BAR * max(1.4, beside) * len(plot.categories))
    return HEIGHT


def _empty(plot: Plot) -> bool:
    if isinstance(plot, Lines):
        return not any(value is not None for series in plot.series for value in series.y)
    if isinstance(plot, Bars):
        return not any(value is not None for group in plot.groups.values() for value in group)
    if isinstance(plot, Histogram):
        return not any(any(counts) for counts in plot.counts.values())
    return not any(value is not None for row in plot.values for value in row)


def _say_empty(axes: Any) -> None:
    axes.set_axis_off()
    axes.text(
        0.5,
        0.5,
        "nothing to show",
        ha="center",
        va="center",
        color=colours.stand_in("faint"),
        transform=axes.transAxes,
    )


def _element(text: str, prefix: str) -> str:
    """Return the ``<svg>`` element alone, without a fixed size, and with prefixed identifiers."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    start, rest = text.split(">", 1)
    text = re.sub(r' (width|height)="[^"]*"', "", start) + ">" + rest
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    return colours.themed(text).strip()


# -- axes ----------------------------------------------------------------------------


def _dress(axes: Any, x: Axis, y: Axis, grid: str = "both") -> None:
    ink, rule = colours.stand_in("ink"), colours.stand_in("rule")
    axes.set_facecolor("none")
    axes.set_xlabel(str(x), color=ink)
    axes.set_ylabel(str(y), color=ink)
    axes.tick_params(colors=ink, which="both", labelcolor=ink, color=rule)
    for name, spine in axes.spines.items():
        spine.set_color(rule)
        spine.set_visible(name in ("left", "bottom"))
    axes.set_axisbelow(True)
    axes.grid(True, axis=grid, color=rule, linewidth=0.6)


def _scale(axes: Any, which: str, axis: Axis) -> None:
    """Set the scale of an axis (``which``: x or y), with numbers without exponents."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    one = axes.xaxis if which == "x" else axes.yaxis
    if axis.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log", nonpositive="mask")
        one.set_minor_formatter(NullFormatter())
    unit = "%" if axis.unit == "%" else ""
    one.set_major_formatter(FuncFormatter(lambda value, _: shown(float(value), unit)))


def _time_axis(axes: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8, tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.xaxis.get_offset_text().set_color(colours.stand_in("ink"))


def _legend(axes: Any, names: Sequence[str]) -> None:
    if len(names) > 1:
        legend = axes.legend(
            loc="upper left",
            bbox_to_anchor=(0.0, -0.2),
            ncols=min(4, len(names)),
            frameon=False,
            handlelength=3.2,
        )
        for text in legend.get_texts():
            text.set_color(colours.stand_in("ink"))


def _marks(axes: Any, marks: Sequence[Mark], across: bool = False) -> None:
    colour = colours.stand_in("faint")
    for mark in marks:
        upright = mark.upright != across
        (axes.axvline if upright else axes.axhline)(
            _utc(mark.value), color=colour, linewidth=1.2, linestyle=(0, (4, 2))
        )
        place = {"x": _utc(mark.value), "y": 1.0} if upright else {"x": 1.0, "y": mark.value}
        axes.annotate(
            mark.label,
            (place["x"], place["y"]),
            color=colour,
            fontsize=8,
            xycoords=axes.get_xaxis_transform() if upright else axes.get_yaxis_transform(),
            xytext=(3, -2) if upright else (-2, 2),
            textcoords="offset points",
            ha="left" if upright else "right",
            va="top" if upright else "bottom",
        )


def _utc(place: Place) -> Place:
    if isinstance(place, datetime) and place.tzinfo is None:
        return place.replace(tzinfo=UTC)
    return place


def _short(name: str) -> str:
    """Shorten a long name to its end, because names of addresses differ at their ends."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


# -- kinds ---------------------------------------------------------------------------


def _lines(axes: Any, plot: Lines) -> None:
    few = max(len(series.x) for series in plot.series) <= _MARKED
    for index, series in enumerate(plot.series):
        colour = colours.series(index)
        x = [_utc(place) for place in series.x]
        y = [float("nan") if value is None else value for value in series.y]
        axes.plot(
            x,
            y,
            color=colour,
            linewidth=1.6,
            label=_short(series.name),
            linestyle=_DASHES[index % len(_DASHES)],
            markersize=3.5,
            marker=_MARKERS[index % len(_MARKERS)] if few else "",
        )
        if series.low:
            axes.fill_between(x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    _dress(axes, plot.x, plot.y)
    if any(isinstance(place, datetime) for series in plot.series for place in series.x):
        _time_axis(axes)
    else:
        _scale(axes, "x", plot.x)
    _scale(axes, "y", plot.y)
    if plot.from_zero and not plot.y.log:
        axes.set_ylim(bottom=0)
    _marks(axes, plot.marks)
    _legend(axes, [series.name for series in plot.series])


def _bars(axes: Any, plot: Bars) -> None:
    places = range(len(plot.categories))
    beside = 1 if plot.stacked else len(plot.groups)
    # A single bar as wide as the plot would look like a frame.
    width = (0.8 if len(plot.categories) > 2 else 0.4) / beside
    base = [0.0 for _ in places]
    for index, (name, given) in enumerate(plot.groups.items()):
        values = [value or 0.0 for value in given]
        offset = 0.0 if plot.stacked else (index + 0.5 - beside / 2) * width
        at = [place + offset for place in places]
        style = {"color": colours.series(index), "label": _short(name)}
        if plot.across:
            axes.barh(at, values, height=width * 0.92, left=base, **style)
        else:
            axes.bar(at, values, width=width * 0.92, bottom=base, **style)
        if plot.stacked:
            base = [below + value for below, value in zip(base, values, strict=True)]
    names = [_short(name) for name in plot.categories]
    if plot.across:
        _dress(axes, plot.y, plot.x, grid="x")
        _scale(axes, "x", plot.y)
        axes.set_yticks(list(places), names)
        axes.invert_yaxis()
    else:
        _dress(axes, plot.x, plot.y, grid="y")
        _scale(axes, "y", plot.y)
        axes.set_xticks(
            list(places),
            names,
            rotation=0 if _fit(names) else 30,
            ha="center" if _fit(names) else "right",
        )
    _marks(axes, plot.marks, plot.across)
    _legend(axes, list(plot.groups))


def _fit(names: Sequence[str]) -> bool:
    return sum(len(name) + 2 for name in names) <= 90


def _histogram(axes: Any, plot: Histogram) -> None:
    # A logarithmic axis has no zero as a base line.
    base = 0.8 if plot.y.log else 0.0
    for index, (name, given) in enumerate(plot.counts.items()):
        counts = [max(count, base) for count in given]
        axes.stairs(
            counts,
            plot.edges,
            color=colours.series(index),
            linewidth=1.6,
            baseline=base,
            label=_short(name),
            linestyle=_DASHES[index % len(_DASHES)],
            fill=False,
        )
        if len(plot.counts) == 1:
            axes.stairs(
                counts, plot.edges, color=colours.series(index), alpha=0.3, fill=True, baseline=base
            )
    _dress(axes, plot.x, plot.y)
    _scale(axes, "x", plot.x)
    _scale(axes, "y", plot.y)
    axes.set_ylim(bottom=base)
    _marks(axes, plot.marks)
    _legend(axes, list(plot.counts))


def _heatmap(axes: Any, plot: Heatmap) -> None:
    from matplotlib.colors import LogNorm, Normalize

    there = [value for row in plot.values for value in row if value is not None]
    if plot.value.log:
        there = [value for value in there if value > 0] or [1.0]
    low, high = min(there), max(there)
    norm = (LogNorm if plot.value.log else Normalize)(low, high if high > low else low + 1)
    grid = [[float("nan") if value is None else value for value in row] for row in plot.values]
    mesh = axes.pcolormesh(
        grid, norm=norm, cmap="cividis", linewidth=0.5, edgecolor=colours.stand_in("page")
    )
    _dress(axes, plot.x, plot.y)
    axes.grid(False)
    axes.set_xticks(
        [i + 0.5 for i in range(len(plot.columns))],
        [_short(c) for c in plot.columns],
        rotation=0 if _fit(plot.columns) else 40,
        ha="center" if _fit(plot.columns) else "right",
    )
    axes.set_yticks([i + 0.5 for i in range(len(plot.rows))], [_short(row) for row in plot.rows])
    axes.invert_yaxis()
    if plot.written:
        _write_cells(axes, plot, norm)
    _colour_bar(axes, mesh, plot.value)


def _write_cells(axes: Any, plot: Heatmap, norm: Any) -> None:
    for i, row in enumerate(plot.values):
        for j, value in enumerate(row):
            # a logarithmic scale leaves out values of 0 or less
            if value is not None and (value > 0 or not plot.value.log):
                light = float(norm(value)) > 0.5
                axes.text(
                    j + 0.5,
                    i + 0.5,
                    shown(value, plot.value.unit, None),
                    fontsize=7.5,
                    ha="center",
                    va="center",
                    color="black" if light else "white",
                )


def _colour_bar(axes: Any, mesh: Any, value: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ink = colours.stand_in("ink")
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label(str(value), color=ink)
    bar.ax.tick_params(colors=ink, which="both", labelcolor=ink)
    bar.outline.set_visible(False)
    unit = "%" if value.unit == "%" else ""
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: shown(float(v), unit)))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())


_DRAW: dict[type, Callable[[Any, Any], None]] = {
    Lines: _lines,
    Bars: _bars,
    Histogram: _histogram,
    Heatmap: _heatmap,
}
