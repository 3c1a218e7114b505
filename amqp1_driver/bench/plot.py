# SPDX-License-Identifier: Apache-2.0

"""Plots of a benchmark's document; they need matplotlib. Main thread.

If the benchmark measured each scenario with several numbers of threads, the plots have one line for
each driver over that number. Otherwise they have bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def draw(document: dict[str, Any], path: str) -> None:
    """Draw the document into a file, whose suffix decides the format.

    :raises OSError: matplotlib cannot write the file
    """
    from matplotlib.figure import Figure

    sweeps = _sweeps(document["scenarios"])
    if not all(len(sweep) > 1 for sweep in sweeps.values()):
        sweeps = {"": document["scenarios"]}
    width = max(_COLUMN, 1.3 * len(sweeps[""]) if "" in sweeps else _COLUMN)
    rows = 3 if "" in sweeps else 4
    figure = Figure(figsize=(width * len(sweeps) + 1, _ROW * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, len(sweeps), squeeze=False)
    for column, (title, scenarios) in enumerate(sweeps.items()):
        panels = [row[column] for row in grid]
        (_lines if title else _bars)(panels, scenarios)
        if title:
            panels[0].set_title(f"{title}\n{panels[0].get_title()}")
    rounds = document["rounds"]
    spread = f"median of {rounds} rounds, lowest and highest" if rounds > 1 else "one round"
    figure.suptitle(
        f"{document['bus'] or _urls(document)}, {document['when'][:10]}, {spread}", fontsize="small"
    )
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


# -- lines over the number of threads ------------------------------------------------


def _lines(panels: Sequence[Any], scenarios: Scenarios) -> None:
    rate, latency, tail, cpu = panels
    for index, entry in enumerate(scenarios[0]["entries"]):
        lost = sum(_lost(scenario["entries"][index]) for scenario in scenarios)
        line = _Line(scenarios, index, entry["label"] + (f": {lost} lost" if lost else ""))
        line.draw(rate, ("received_per_s",), 1.0)
        line.draw(latency, ("latency_us", "p50"), 1e-3)
        line.draw(latency, ("latency_us", "p99"), 1e-3, dashed=True)
        line.draw(tail, ("latency_us", "p99"), 1.0, under=("latency_us", "p50"))
        line.draw(cpu, ("cpu_us", "client"), 1.0, plus=("cpu_us", "server"))
    titles = (
        ("received", "messages/s"),
        ("latency: p50, p99 dashed", "ms"),
        ("p99 / p50 of the latency", ""),
        ("CPU, client + server", "us per message"),
    )
    threads = [scenario["threads"] for scenario in scenarios]
    for axes, (title, unit) in zip(panels, titles, strict=True):
        axes.set(title=title, ylabel=unit, xlabel="threads", xscale="log")
        axes.set_xticks(threads, [str(count) for count in threads])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if axes is not latency:
            axes.set_ylim(bottom=0)
    latency.set_yscale("log")
    latency.yaxis.set_major_formatter("{x:g}")
    rate.legend()


class _Line:
    """A line of one driver over the number of threads, in a band from lowest to highest round."""

    def __init__(self, scenarios: Scenarios, index: int, label: str) -> None:
        self._label, self._colour = label, f"C{index}"
        self._runs = [
            (
                scenario["threads"],
                [run for run in scenario["entries"][index]["runs"] if "trouble" not in run],
            )
            for scenario in scenarios
        ]

    def draw(
        self,
        axes: Any,
        path: Sequence[str],
        scale: float,
        *,
        plus: Sequence[str] = (),
        under: Sequence[str] = (),
        dashed: bool = False,
    ) -> None:
        """Draw one figure.

        :param path: keys of the figure in a run
        :param scale: factor
        :param plus: keys of a figure to add
        :param under: keys of a figure to divide by; unused with ``plus``
        """
        points = []
        for threads, runs in self._runs:
            values = sorted(
                value for run in runs if (value := _value(run, path, plus, under)) is not None
            )
            if values:
                points.append((threads, [value * scale for value in values]))
        x = [threads for threads, _ in points]
        style = {"color": self._colour, "markersize": 4, "label": None if dashed else self._label}
        middles = [_middle(values) for _, values in points]
        axes.plot(x, middles, "o--" if dashed else "o-", **style)
        axes.fill_between(
            x,
            [values[0] for _, values in points],
            [values[-1] for _, values in points],
            color=self._colour,
            alpha=0.2,
            linewidth=0,
        )


def _value(
    run: dict[str, Any], path: Sequence[str], plus: Sequence[str], under: Sequence[str]
) -> float | None:
    value = _at(run, path)
    if value is not None and plus:
        other = _at(run, plus)
        return None if other is None else value + other
    if value is not None and under:
        other = _at(run, under)
        return value / other if other else None
    return value


def _at(run: Any, path: Sequence[str]) -> float | None:
    for name in path:
        run = run[name]
    value: float | None = run
    return value


def _middle(values: Sequence[float]) -> float:
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


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
