#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""How a listener hands over what came in one batch, to a server that only queues it."""

import logging
from types import SimpleNamespace

import pytest

from amqp1_driver.listener import Listener
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.protocol.receiver import Delivery

RECEIVER = SimpleNamespace(address="q", host="bus1:5672", link=None, again=Outcome.RELEASED)


def message(letter):
    """Properties (3.2.4) with a message-id of one letter, data (3.2.6) with ``{}``."""
    return b"\x00\x53\x73\xc0\x04\x01\xa1\x01" + letter + b"\x00\x53\x75\xa0\x02{}"


class Client:
    dead = False

    def __init__(self):
        self.settled = []

    def settle(self, delivery, idly=False):
        self.settled.append((delivery.key, delivery.outcome))


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def listener(client):
    made = Listener(lambda queue: (client, None), window=100)
    made.later = []
    made.queue.use(made.later.append)
    return made


def come(listener, *datas):
    """Deliveries of one batch, with keys 1, 2, ...; then the end of the batch."""
    for key, data in enumerate(datas, 1):
        listener.queue.deliver(Delivery(RECEIVER, None, key, data))
    for fn in listener.later:
        fn()


def test_all_of_a_batch_are_ready_before_the_server_hears_of_the_first(listener, monkeypatch):
    order = []
    decode = listener._decode
    monkeypatch.setattr(listener, "_decode", lambda data: order.append("ready") or decode(data))
    listener.hand_to(lambda messages: order.append([one.msg_id for one in messages]))
    come(listener, message(b"a"), message(b"b"), message(b"c"))
    assert order == ["ready", "ready", "ready", ["a"], ["b"], ["c"]]


def test_the_first_waits_for_fifteen_others_at_most(listener, monkeypatch):
    order = []
    decode = listener._decode
    monkeypatch.setattr(listener, "_decode", lambda data: order.append("r") or decode(data))
    listener.hand_to(lambda messages: order.append("h"))
    come(listener, *(message(bytes([65 + n])) for n in range(20)))
    assert "".join(order) == "r" * 16 + "h" * 16 + "r" * 4 + "h" * 4


def test_what_the_server_refuses_is_given_back_and_the_others_are_not(listener, client, caplog):
    seen = []

    def server(messages):
        if messages[0].msg_id == "b":
            raise RuntimeError("cannot schedule new futures after shutdown")
        seen.append(messages[0].msg_id)

    listener.hand_to(server)
    with caplog.at_level(logging.ERROR):
        come(listener, message(b"a"), message(b"b"), message(b"c"))
    assert seen == ["a", "c"]
    assert client.settled == [(2, Outcome.RELEASED)]
    assert "did not take message b from q" in caplog.text


def test_one_that_can_not_be_decoded_does_not_keep_the_others(listener, client):
    seen = []
    listener.hand_to(lambda messages: seen.append(messages[0].msg_id))
    come(listener, message(b"a"), b"\xff", message(b"c"))
    assert seen == ["a", "c"]
    assert client.settled == [(2, Outcome.REJECTED)]
