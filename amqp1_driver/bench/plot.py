# SPDX-License-Identifier: Apache-2.0

"""Plots of the results in a benchmark's document; they need matplotlib. Main thread.

If the benchmark measured each scenario with several numbers of threads, the plots have one line for
each driver over that number. Otherwise they have bars.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amqp1_driver.bench.figures import FIGURES

Run = dict[str, Any]
Scenarios = Sequence[dict[str, Any]]

_SHADES = {"client": 1.0, "server": 0.65, "bus": 0.35}
_COLUMN, _ROW = 5.2, 3.3


def check(path: str) -> None:
    """Check, before the measurement, that ``draw`` can write to this path.

    :raises ValueError: matplotlib is missing, or it does not support this kind of file; the text
        is for the user
    :raises OSError: the folder does not exist
    """
    try:
        import matplotlib.figure
    except ImportError as error:
        raise ValueError(
            f"--plot needs matplotlib ({error}): pip install 'amqp1-driver[bench]'"
        ) from None
    figure = matplotlib.figure.Figure()
    known = sorted(figure.canvas.get_supported_filetypes())
    if Path(path).suffix[1:] not in known:
        raise ValueError(f"--plot {path}: the name has to end in one of {' '.join(known)}")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"--plot {path}: there is no such folder")


class Panel(NamedTuple):
    """A diagram of figures over the size of a scenario, with a line for each driver.

    The size is the number of threads, or the n of ``scale``.

    :param figures: functions of a run; the lines of all but the first are dashed
    :param scale: scale of the figures' axis: "linear", from 0, or "log"
    """

    title: str
    unit: str
    figures: Sequence[Callable[[Run], float | None]]
    scale: str = "linear"


class Chart(NamedTuple):
    """The panels of some scenarios, one below the other.

    :param axis: name of the scenarios' size, see ``Panel``
    :param sizes: the size of each scenario
    :param drivers: for each driver its label, and its runs by scenario
    """

    title: str
    panels: Sequence[Panel]
    axis: str
    sizes: Sequence[int]
    drivers: Sequence[tuple[str, Sequence[Sequence[Run]]]]


def draw(document: dict[str, Any], path: str) -> None:
    """Draw the document of ``amqp1 bench`` into a file, whose suffix decides the format.

    :raises OSError: matplotlib cannot write the file
    """
    scenarios = document["scenarios"]
    rounds = document["rounds"]
    spread = f"median of {rounds} rounds, lowest and highest" if rounds > 1 else "one round"
    caption = f"{document['bus'] or _urls(document)}, {document['when'][:10]}, {spread}"
    sweeps = _sweeps(scenarios)
    if all(len(sweep) > 1 for sweep in sweeps.values()):
        charts = [_chart(title, sweep) for title, sweep in sweeps.items()]
        draw_charts(charts, caption, path)
        return
    figure, grid = _grid(3, 1, max(_COLUMN, 1.3 * len(scenarios)))
    _bars([row[0] for row in grid], scenarios)
    _save(figure, caption, path)


def draw_charts(charts: Sequence[Chart], caption: str, path: str) -> None:
    """Draw charts beside each other; see ``draw``."""
    figure, grid = _grid(max(len(chart.panels) for chart in charts), len(charts), _COLUMN)
    for column, chart in enumerate(charts):
        axes = [row[column] for row in grid]
        _lines(axes, chart)
        axes[0].set_title(f"{chart.title}\n{axes[0].get_title()}")
        for empty in axes[len(chart.panels) :]:
            empty.remove()
    _save(figure, caption, path)


def _grid(rows: int, columns: int, width: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns + 1, _ROW * rows + 0.6), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Any, caption: str, path: str) -> None:
    figure.suptitle(caption, fontsize="small")
    figure.savefig(path, dpi=110)


def _urls(document: dict[str, Any]) -> str:
    return " ".join(dict.fromkeys(entry["url"] for entry in document["scenarios"][0]["entries"]))


def _sweeps(scenarios: Scenarios) -> dict[str, list[dict[str, Any]]]:
    """Group the scenarios that differ only in the number of threads.

    :returns: the groups, by their common title without the number of threads
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for scenario in scenarios:
        words = scenario["title"].split(", ")
        found.setdefault(", ".join(words[:1] + words[2:]), []).append(scenario)
    return found


def _lost(entry: dict[str, Any]) -> int:
    return int(entry["median"]["lost"]) if entry["median"] is not None else 0


# -- lines ---------------------------------------------------------------------------


def _latency(name: str) -> Callable[[Run], float | None]:
    return lambda run: run["latency_us"][name] / 1e3


_PANELS = (
    Panel("received", "messages/s", [FIGURES["recv/s"]]),
    Panel("latency: p50, p99 dashed", "ms", [_latency("p50"), _latency("p99")], "log"),
    Panel("p99 / p50 of the latency", "", [FIGURES["p99/p50"]]),
    Panel("CPU, client + server", "us per message", [FIGURES["CPU client+server"]]),
)


def _chart(title: str, scenarios: Scenarios) -> Chart:
    drivers = []
    for index, entry in enumerate(scenarios[0]["entries"]):
        entries = [scenario["entries"][index] for scenario in scenarios]
        lost = sum(map(_lost, entries))
        label = entry["label"] + (f": {lost} lost" if lost else "")
        drivers.append((label, [entry["runs"] for entry in entries]))
    sizes = [scenario["threads"] for scenario in scenarios]
    return Chart(title, _PANELS, "threads", sizes, drivers)


def _lines(grid: Sequence[Any], chart: Chart) -> None:
    for axes, panel in zip(grid, chart.panels, strict=False):
        for index, (label, runs) in enumerate(chart.drivers):
            for number, figure in enumerate(panel.figures):
                style = {"color": f"C{index}", "label": None if number else label}
                _line(axes, chart.sizes, runs, figure, "o--" if number else "o-", style)
        axes.set(title=panel.title, ylabel=panel.unit, xlabel=chart.axis, xscale="log")
        axes.set_xticks(chart.sizes, [str(size) for size in chart.sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        # a logarithmic axis needs a positive value
        if panel.scale == "log" and any(
            max(line.get_ydata(), default=0) > 0 for line in axes.lines
        ):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(bottom=0)
    grid[0].legend()


def _line(
    axes: Any,
    sizes: Sequence[int],
    runs: Sequence[Sequence[Run]],
    figure: Callable[[Run], float | None],
    marks: str,
    style: dict[str, Any],
) -> None:
    """Draw the medians of a figure, in a band from its lowest to its highest round."""
    points = []
    for size, rounds in zip(sizes, runs, strict=True):
        found = [figure(run) for run in rounds if "trouble" not in run]
        values = [value for value in found if value is not None]
        if values:
            points.append((size, min(values), statistics.median(values), max(values)))
    x, low, middle, high = zip(*points, strict=True) if points else ((),) * 4
    axes.plot(x, middle, marks, markersize=4, **style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)


# -- bars ----------------------------------------------------------------------------


def _bars(panels: Sequence[Any], scenarios: Scenarios) -> None:
    titles = (
        ("received", "messages/s"),
        ("latency p50, line to p99", "ms"),
        ("CPU of client, server, bus (from below)", "us per message"),
    )
    labels = [entry["label"] for entry in scenarios[0]["entries"]]
    width = 0.8 / len(labels)
    for place, scenario in enumerate(scenarios):
        for index, entry in enumerate(scenario["entries"]):
            if entry["median"] is not None:
                label = entry["label"] if place == 0 else None
                x = place - 0.4 + (index + 0.5) * width
                style = {"width": width * 0.92, "color": f"C{index}", "label": label}
                _bar(panels, x, entry, style)
    names = [scenario["title"].replace(", ", "\n", 1) for scenario in scenarios]
    for axes, (title, unit) in zip(panels, titles, strict=True):
        axes.set(title=title, ylabel=unit)
        axes.set_xticks(range(len(scenarios)), names, fontsize="small")
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend()


def _bar(panels: Sequence[Any], x: float, entry: dict[str, Any], style: dict[str, Any]) -> None:
    rate, latency, cpu = panels
    median = entry["median"]
    values = [run["received_per_s"] for run in entry["runs"] if "trouble" not in run]
    rate.bar(x, median["received_per_s"], **style)
    rate.vlines(x, min(values), max(values), color="black", linewidth=1)
    if lost := _lost(entry):
        rate.text(
            x, max(values), f"{lost} lost", color="red", ha="center", va="bottom", fontsize="small"
        )
    middle, tail = (median["latency_us"][name] / 1e3 for name in ("p50", "p99"))
    latency.bar(x, middle, **style)
    latency.vlines(x, middle, tail, color="black", linewidth=1)
    bottom = 0.0
    for name, shade in _SHADES.items():
        value = median["cpu_us"][name] or 0.0
        cpu.bar(x, value, bottom=bottom, alpha=shade, **{**style, "label": None})
        bottom += value
