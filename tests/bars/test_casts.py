# SPDX-License-Identifier: Apache-2.0
"""Bar: 8 threads casting 100,000 messages to a slow server: none lost, none duplicated, and
neither process grows by more than 50 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bars.workers import Worker

GROWTH = 50 * 1024 * 1024
WARM_UP = 400
THREADS = 8


def test_many_casts_to_a_slow_server_arrive_once_each_in_bounded_memory(
    bus: Any, worker: Callable[[str], Worker], long_form: bool, measured: Callable[[str], None]
) -> None:
    count = WARM_UP + (100_000 if long_form else 10_000)
    patience = 900 if long_form else 60
    server, client = worker("server"), worker("client")
    server.do("open", url=bus.url(), topic="casts", options={}, pool=2)
    server.do("serve", name="slow", numbers=count, pause=0.0005)
    client.do("open", url=bus.url(), topic="casts", options={})
    assert client.do("cast_numbers", first=0, last=WARM_UP, threads=THREADS)["errors"] == []
    server.do("tally", count=WARM_UP, timeout=20)
    before = {one.name: one.do("reset_peak") for one in (server, client)}

    sent = client.do("cast_numbers", within=patience, first=WARM_UP, last=count, threads=THREADS)
    tally = server.do("tally", within=patience + 5, count=count, timeout=patience)
    growth = {one.name: one.do("peak") - before[one.name] for one in (server, client)}
    measured(
        f"{count} casts in {sent['seconds']:.1f} s, growth in KiB: "
        + str({name: size // 1024 for name, size in growth.items()})
    )

    assert sent["errors"] == []
    assert tally == {"received": count, "different": count, "repeated": 0}
    assert growth["server"] < GROWTH
    assert growth["client"] < GROWTH
    # nothing more comes once all is closed
    assert client.do("close") == []
    assert server.do("close") == []
    assert server.do("tally", count=count + 1, timeout=0)["received"] == count
