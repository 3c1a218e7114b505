# SPDX-License-Identifier: Apache-2.0
"""Bar: a process that has used its transport may fork; each process has replies of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bars.workers import Worker

CHILDREN = 4


def test_forked_workers_have_reply_addresses_of_their_own_and_get_no_others_replies(
    bus: Any, worker: Callable[[str], Worker], long_form: bool
) -> None:
    server, client = worker("server"), worker("client")
    for one in (server, client):
        one.do("open", url=bus.url(), topic="forks", options={})
    server.do("serve", name="only")
    seen = client.do("fork", within=60, children=CHILDREN, calls=500 if long_form else 50)

    assert len(seen) == CHILDREN + 1
    addresses = [process["address"] for process in seen.values()]
    assert None not in addresses
    assert len(set(addresses)) == CHILDREN + 1
    phases = [
        *seen.values(),
        *(
            part
            for process in seen.values()
            for name in ("before", "after")
            if (part := process.get(name))
        ),
    ]
    assert [part["errors"] for part in phases] == [[]] * (CHILDREN + 3)
    assert [part["wrong"] for part in phases] == [[]] * (CHILDREN + 3)
    assert [process["status"] for process in seen.values() if "status" in process] == [0] * CHILDREN
    assert client.do("close") == []
    assert server.do("close") == []
