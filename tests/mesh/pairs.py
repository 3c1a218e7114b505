# SPDX-License-Identifier: Apache-2.0

"""Whether each router of a mesh knows the way to every other one: shown by calls between them."""

from __future__ import annotations

import itertools
import time

from tests.bars.support import Transports
from tests.mesh.routers import Mesh

#: routers look for each other again after up to ten seconds
JOIN_SECONDS = 60.0


def wait_until_joined(mesh: Mesh) -> float:
    """Returns when a call has gone from each router to each other one; seconds it took.

    A call waits for the credit of its router, which comes when the news of the server has.
    """
    began = time.monotonic()
    numbers = range(len(mesh.routers))
    transports = Transports()
    try:
        for number in numbers:
            transports.serve(mesh.url(number), topic=f"joined-{number}")
        for here, there in itertools.permutations(numbers, 2):
            client = transports.client(mesh.url(here), timeout=JOIN_SECONDS)
            answer = client.prepare(topic=f"joined-{there}").call({}, "echo", text="there")
            assert answer == "there"
    finally:
        transports.cleanup()
    return time.monotonic() - began
