# SPDX-License-Identifier: Apache-2.0
"""Table and plots of a soak, from whatever it has written so far."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import checker, history
from tests.chaos.promises import PROMISES
from tests.chaos.slope import Slope, medians, theil_sen

HOUR = 3600.0
#: seconds that one point of a series stands for
WIDTH = 60.0
#: the share of the run that is warm-up, which the slopes leave out
WARM_UP = 0.25
#: growth per hour that counts as none, whatever the interval says: bytes, numbers, seconds
BOUNDS = {"rss": 1 << 20, "descriptors": 0.5, "threads": 0.5, "latency": 0.001}
UNITS = {
    "rss": (1 << 20, "MiB"),
    "descriptors": (1, ""),
    "threads": (1, ""),
    "latency": (0.001, "ms"),
}

#: is there when the soak has ended
DONE = "done"

Series = list[tuple[float, float]]


@dataclass(frozen=True)
class Row:
    """One quantity of one process: its median, and its slope per hour."""

    bus: str
    process: str
    quantity: str
    median: float
    slope: Slope

    @property
    def flat(self) -> bool:
        return self.slope.flat(BOUNDS[self.quantity])


def report(folder: Path) -> int:
    """Print the table, write plots and results; 0 if nothing grows and no rule is broken."""
    run = json.loads((folder / "run.json").read_text())
    series = load(folder, run["began"])
    rows = judge(series)
    running = not (folder / DONE).exists()
    broken = {}
    for bus in run["buses"]:
        events = history.load(folder / bus, running)
        broken[bus] = checker.check(events, PROMISES[bus])
        if not running:
            broken[bus] += checker.unfinished(events)
    text = table(rows)
    print(text)
    for bus, violations in broken.items():
        print(
            f"{bus}: {len(violations)} violations {dict(Counter(one.rule for one in violations))}"
        )
        for one in violations[:10]:
            print(f"  {one.rule}: {one.what}")
    (folder / "table.txt").write_text(text + "\n")
    plot(series, folder)
    return int(any(not row.flat for row in rows) or any(broken.values()))


def load(folder: Path, began: float) -> dict[tuple[str, str, str], Series]:
    """The series by bus, process and quantity; times in seconds since the beginning."""
    found: dict[tuple[str, str, str], Series] = defaultdict(list)
    for line in (folder / "samples.jsonl").read_text().splitlines():
        one = json.loads(line)
        for quantity in ("rss", "descriptors", "threads"):
            found[one["bus"], one["p"], quantity].append((one["t"] - began, one[quantity]))
    for path in sorted(folder.glob("*/client-*.jsonl")):
        if ".fork" not in path.name:
            found[path.parent.name, path.stem, "latency"] = _latencies(path, began)
    return found


def _latencies(path: Path, began: float) -> Series:
    """Of calls that had success."""
    begins: dict[str, float] = {}
    found: Series = []
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # it is being written
            continue
        if event["e"] == "invoke" and event["k"] == "call":
            begins[event["id"]] = event["t"]
        elif event["e"] in ("ok", "info", "fail") and event["k"] == "call":
            begin = begins.pop(event["id"])
            if event["e"] == "ok":
                found.append((begin - began, event["t"] - begin))
    return found


def judge(series: dict[tuple[str, str, str], Series]) -> list[Row]:
    """The slopes after the warm-up, per hour."""
    rows = []
    for (bus, process, quantity), points in sorted(series.items()):
        end = max(at for at, _ in points)
        steady = medians([(at, value) for at, value in points if at >= WARM_UP * end], WIDTH)
        if len(steady) < 4:
            continue
        hours = [(at / HOUR, value) for at, value in steady]
        rows.append(
            Row(bus, process, quantity, statistics.median(v for _, v in steady), theil_sen(hours))
        )
    return rows


def table(rows: Sequence[Row]) -> str:
    """As text."""
    lines = [
        f"{'bus':13} {'process':11} {'quantity':12} {'median':>10} {'per hour':>10} "
        f"{'95 % interval':>21}"
    ]
    for row in rows:
        scale, unit = UNITS[row.quantity]
        value, low, high = (x / scale for x in (row.slope.value, row.slope.low, row.slope.high))
        lines.append(
            f"{row.bus:13} {row.process:11} {row.quantity:12} "
            f"{row.median / scale:10.2f} {value:10.4f} {low:10.4f} {high:10.4f} "
            f"{unit:4}{'' if row.flat else 'GROWS'}"
        )
    return "\n".join(lines)


def plot(series: dict[tuple[str, str, str], Series], folder: Path) -> None:
    """One picture for each quantity, with one panel for each bus."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for quantity, (scale, unit) in UNITS.items():
        buses = sorted({bus for bus, _, one in series if one == quantity})
        figure, panels = pyplot.subplots(
            len(buses), 1, figsize=(9, 2 * len(buses)), sharex=True, squeeze=False
        )
        for panel, bus in zip(panels[:, 0], buses, strict=True):
            for (of, process, one), points in sorted(series.items()):
                if (of, one) == (bus, quantity) and points:
                    steady = medians(points, WIDTH)
                    panel.plot(
                        [at / 60 for at, _ in steady],
                        [v / scale for _, v in steady],
                        label=process,
                        linewidth=1,
                    )
            panel.set_title(bus, fontsize=9, loc="left")
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
        panels[0, 0].legend(fontsize=7, ncols=4, loc="lower right")
        panels[-1, 0].set_xlabel("minutes")
        figure.suptitle(
            f"{quantity}{f', {unit}' if unit else ''}: median of each minute", fontsize=10
        )
        figure.tight_layout()
        figure.savefig(folder / f"{quantity}.png", dpi=90)
        pyplot.close(figure)
