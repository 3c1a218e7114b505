# SPDX-License-Identifier: Apache-2.0
"""Which fault strikes what, when and for how long: from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: kind -> (what it strikes, weight, shortest and longest duration in seconds).
#: "way" is the proxy between one process and the bus.
FAULTS: dict[str, tuple[str, float, float, float]] = {
    "reset": ("way", 10, 0.0, 0.0),
    "refuse": ("way", 4, 0.2, 1.5),
    "half-open": ("way", 4, 0.0, 0.0),
    "freeze": ("way", 6, 0.3, 3.0),
    "deaf": ("way", 3, 0.3, 3.0),
    "mute": ("way", 3, 0.3, 3.0),
    "delay": ("way", 5, 0.5, 3.0),
    "throttle": ("way", 5, 0.5, 3.0),
    "server-stop": ("server", 4, 0.3, 3.0),
    "server-kill": ("server", 3, 0.0, 0.5),
    "server-restart": ("server", 3, 0.0, 0.5),
    "listener-stop": ("listener", 4, 0.3, 3.0),
    "listener-kill": ("listener", 3, 0.0, 0.5),
    "listener-restart": ("listener", 2, 0.0, 0.5),
    "fork": ("forking", 3, 0.0, 0.0),
    "no-descriptors": ("client", 4, 0.5, 2.0),
    "disk-full": ("spooling", 2, 0.5, 2.0),
    "clock-jump": ("clocked", 4, 0.5, 2.0),
    "bus-stop": ("bus", 2.5, 0.3, 3.0),
    "bus-kill": ("bus", 1.5, 0.0, 0.5),
    "password": ("bus", 1.5, 0.5, 2.0),
    "close-connections": ("bus", 3, 0.0, 0.0),
    "memory-alarm": ("bus", 1.5, 0.5, 3.0),
    "disk-alarm": ("bus", 1.5, 0.5, 3.0),
    "delete-queues": ("bus", 2, 0.0, 0.0),
}


@dataclass(frozen=True)
class Planned:
    """One fault: ``at`` seconds after the start, for ``hold`` seconds."""

    at: float
    kind: str
    target: str
    hold: float


def plan(
    seed: int,
    count: int,
    gap: tuple[float, float],
    kinds: Sequence[str],
    targets: Mapping[str, Sequence[str]],
) -> list[Planned]:
    """Plan so many faults.

    :param gap: shortest and longest pause between the beginnings of two, seconds
    :param kinds: those that may be used
    :param targets: what there is to strike: "way" -> names, ...; kinds without a target are
        left out
    """
    rng = random.Random(seed)
    usable = [kind for kind in kinds if targets.get(FAULTS[kind][0])]
    # each kind once, if there is room for that, and then by weight
    chosen = rng.sample(usable, min(count, len(usable)))
    chosen += rng.choices(usable, [FAULTS[kind][1] for kind in usable], k=count - len(chosen))
    rng.shuffle(chosen)
    planned, at = [], 0.0
    for kind in chosen:
        at += rng.uniform(*gap)
        struck, _, shortest, longest = FAULTS[kind]
        planned.append(
            Planned(
                round(at, 3),
                kind,
                rng.choice(list(targets[struck])),
                round(rng.uniform(shortest, longest), 3),
            )
        )
    return planned
