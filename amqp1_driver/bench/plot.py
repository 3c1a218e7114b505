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

"""A picture of what was measured; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: title, unit, and where the figure is
_PANELS = (
    ("received", "messages/s", "received_per_s"),
    ("latency p50, line to p99", "ms", "latency_us"),
    ("CPU of client, server, bus", "us per message", "cpu_us"),
)
_SHADES = {"client": 1.0, "server": 0.65, "bus": 0.35}


def draw(document: dict[str, Any], path: str) -> None:
    """Write a picture of the document; its kind by the file's name. ImportError, OSError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    scenarios = document["scenarios"]
    labels = [entry["label"] for entry in scenarios[0]["entries"]]
    width = max(7.0, 1.2 * len(scenarios) * len(labels))
    figure, panels = pyplot.subplots(len(_PANELS), 1, figsize=(width, 3.2 * len(_PANELS)))
    for axes, (title, unit, path_) in zip(panels, _PANELS, strict=True):
        for index, label in enumerate(labels):
            _bars(axes, scenarios, index, len(labels), label, path_)
        axes.set_title(title)
        axes.set_ylabel(unit)
        axes.set_xticks(range(len(scenarios)), [scenario["title"] for scenario in scenarios])
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend()
    figure.suptitle(f"{document['bus'] or 'bus'}, {document['when']}", fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(axes: Any, scenarios: Sequence[dict[str, Any]], index: int, count: int, label: str,
          figure: str) -> None:  # fmt: skip
    width = 0.8 / count
    for place, scenario in enumerate(scenarios):
        entry = scenario["entries"][index]
        median = entry["median"]
        if median is None:
            continue
        options = {"width": width, "color": f"C{index}", "label": label if place == 0 else None}
        x = place - 0.4 + (index + 0.5) * width
        if figure == "cpu_us":
            _stack(axes, x, median["cpu_us"], options)
        elif figure == "latency_us":
            middle, tail = (median["latency_us"][name] / 1e3 for name in ("p50", "p99"))
            axes.bar(x, middle, **options)
            axes.vlines(x, middle, tail, color="black", linewidth=1)
        else:
            values = [run[figure] for run in entry["runs"] if figure in run]
            axes.bar(x, median[figure], **options)
            axes.vlines(x, min(values), max(values), color="black", linewidth=1)


def _stack(axes: Any, x: float, parts: dict[str, float | None], options: dict[str, Any]) -> None:
    bottom = 0.0
    for name, shade in _SHADES.items():
        value = parts[name] or 0.0
        axes.bar(x, value, bottom=bottom, alpha=shade, **options)
        bottom += value
        options = {**options, "label": None}
