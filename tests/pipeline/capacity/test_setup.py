# SPDX-License-Identifier: Apache-2.0

"""What can be simulated, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.capacity import costs
from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.setup import Setup, distance


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 1, "agents": 1}, "only one"),
        ({}, "only one"),
        ({"agents": 1, "rate": 5.0}, "a rate needs threads"),
        ({"agents": 1, "routers": 2}, "1 servers can't be spread evenly over 2 routers"),
        ({"agents": 1, "routers": 0}, "routers is 0: at least 1"),
        ({"agents": 1, "service_us": -1.0}, "service_us is -1.0"),
        ({"agents": 1, "topology": "star"}, "none of full, ring"),
        ({"threads": 1, "fold": True}, "only open arrivals"),
        ({"agents": 1, "local": 1.5}, "1 at most"),
        ({"agents": 1, "timeout_s": 0.0}, "positive"),
        ({"agents": 1, "cores": 2, "others": 2.0}, "less than the cores"),
    ],
)
def test_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Setup(**changes)


def test_a_row_and_back() -> None:
    numpy = pytest.importorskip("numpy")
    row = {
        **Setup(agents=7, fold=True).row(),
        "agents": numpy.int64(7),
        "fold": numpy.bool_(True),
        "interval_s": numpy.float64(10.0),
        "something": 1,
    }

    assert Setup.of(row) == Setup(agents=7, fold=True)


def test_distances() -> None:
    assert [distance(0, other, 5, "ring") for other in range(5)] == [0, 1, 2, 2, 1]
    assert [distance(2, other, 4, "full") for other in range(4)] == [1, 1, 0, 1]


def test_links_that_a_message_passes() -> None:
    assert Setup(agents=1).mean_hops == 0.0
    assert Setup(agents=1, routers=4, servers=4).mean_hops == 0.75
    # 3/4 go away, over 1, 2 or 1 links
    assert Setup(agents=1, routers=4, servers=4, topology="ring").mean_hops == pytest.approx(1.0)
    assert Setup(agents=1, routers=4, servers=4, local=0.9).mean_hops == pytest.approx(0.1)


def test_offered_calls() -> None:
    assert Setup(agents=500, interval_s=5.0).offered == 100.0
    assert Setup(poisson=7.0).offered == 7.0
    assert Setup(threads=4).offered == 0.0


def test_costs_are_kept_in_a_file(tmp_path: Path) -> None:
    known = Costs(Part(1, 2, 3), Part(4), Part(5), 6.0, 7.0, 1.5, 0.25, 0.5, origin={"bus": "b"})
    costs.save(known, tmp_path / "c.json")

    assert costs.load(str(tmp_path / "c.json")) == known


def test_files_that_are_no_costs(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    with pytest.raises(ValueError, match=r"those that come along: .*embedded-router"):
        costs.load(str(file))
    file.write_text("{")
    with pytest.raises(ValueError, match=r"c\.json"):
        costs.load(str(file))
    file.write_text('{"schema": 2}')
    with pytest.raises(ValueError, match="schema 1"):
        costs.load(str(file))
    file.write_text('{"schema": 1, "client": {"call": 1}}')
    with pytest.raises(ValueError, match="not a file of costs"):
        costs.load(str(file))
    file.write_text(
        '{"schema": 1, "client": {"call": -1}, "router": {"call": 1}, "server": {"call": 1}}'
    )
    with pytest.raises(ValueError, match="below zero"):
        costs.load(str(file))


def test_costs_that_come_along_say_where_they_are_from() -> None:
    assert "embedded-router" in costs.shipped()
    for name in costs.shipped():
        origin = costs.load(name).origin
        assert {"when", "bus", "commit", "processor", "points", "fit"} <= set(origin)
