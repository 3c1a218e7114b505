# SPDX-License-Identifier: Apache-2.0

"""Which session a link is on."""

from types import SimpleNamespace

import pytest

from amqp1_driver.engine.sessions import LINKS_PER_SESSION, Sessions


class Engine:
    def __init__(self):
        self.sessions = []

    def session(self):
        self.sessions.append(SimpleNamespace(links=0, ended=False))
        return self.sessions[-1]


def fill(choose, links):
    """Attach links; the number of each session's, in the order of their begin."""
    for _ in range(links):
        choose().links += 1


@pytest.mark.parametrize("kind", ["for_sender", "for_receiver"])
def test_one_kind_of_session_for_all_links_may_use_all_that_the_peer_allows(kind):
    engine = Engine()
    sessions = Sessions(engine.session, per_receiver=False, limit=5, one=True)
    fill(getattr(sessions, kind), 4 * LINKS_PER_SESSION)
    assert [session.links for session in engine.sessions] == [LINKS_PER_SESSION] * 4
    # the next link shares: no session is begun beyond the limit
    fill(getattr(sessions, kind), 1)
    assert len(engine.sessions) == 4


def test_receivers_leave_a_session_to_senders():
    engine = Engine()
    sessions = Sessions(engine.session, per_receiver=True, limit=5)
    fill(sessions.for_receiver, 10)
    assert len(engine.sessions) == 3
    fill(sessions.for_sender, 1)
    assert [session.links for session in engine.sessions] == [4, 3, 3, 1]
