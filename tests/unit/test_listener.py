# SPDX-License-Identifier: Apache-2.0

"""How a listener hands over what came in one batch, to a server that only queues it."""

import logging
from types import SimpleNamespace

import pytest

from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.driver import listener as listener_module
from amqp1_driver.driver.listener import Listener, ListenerAdapter
from amqp1_driver.exceptions import Closed, DecodeError
from amqp1_driver.policy.outcome import Outcome

RECEIVER = SimpleNamespace(
    address="q", host="bus1:5672", link=None, again=Outcome.RELEASED, expires=False
)


def message(letter):
    """Properties (3.2.4) with a message-id of one letter, data (3.2.6) with ``{}``."""
    return b"\x00\x53\x73\xc0\x04\x01\xa1\x01" + letter + b"\x00\x53\x75\xa0\x02{}"


class Client:
    dead = False

    def __init__(self):
        self.settled = []

    def settle(self, delivery, idly=False, alone=False):
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


def test_the_last_message_in_work_is_settled_alone(listener, client, monkeypatch):
    taken, alone = [], []
    monkeypatch.setattr(client, "settle", lambda delivery, idly, last: alone.append(last))
    listener.hand_to(taken.extend)
    come(listener, message(b"a"), message(b"b"))
    for incoming in taken:
        incoming.acknowledge()
    assert alone == [False, True]


def test_a_listener_that_does_not_know_what_is_in_work_settles_nothing_alone(client, monkeypatch):
    taken, alone = [], []
    monkeypatch.setattr(client, "settle", lambda delivery, idly, last: alone.append(last))
    listener = Listener(lambda queue: (client, None), window=0)
    listener.hand_to(taken.extend)
    listener.queue.deliver(Delivery(RECEIVER, None, 1, message(b"a")))
    taken[0].acknowledge()
    assert alone == [False]


def expiring(seconds):
    """Message ``a`` with an absolute-expiry-time (3.2.4), seconds since 1970."""
    stamp = (seconds * 1000).to_bytes(8, "big")
    return (
        b"\x00\x53\x73\xc0\x14\x09\xa1\x01a"
        + 7 * b"\x40"
        + b"\x83"
        + stamp
        + b"\x00\x53\x75\xa0\x02{}"
    )


@pytest.mark.parametrize(("now", "seen"), [(1000.0, ["a"]), (1005.0, ["a"]), (1005.1, [])])
def test_an_expired_message_is_rejected_with_room_for_clocks_that_differ(
    listener, client, caplog, monkeypatch, now, seen
):
    monkeypatch.setattr("amqp1_driver.driver.listener.time.time", lambda: now)
    monkeypatch.setattr(RECEIVER, "expires", True)
    found = []
    listener.hand_to(lambda messages: found.append(messages[0].msg_id))
    come(listener, expiring(1000))
    assert found == seen
    assert client.settled == ([] if seen else [(1, Outcome.REJECTED)])
    assert ("Message a on q at bus1:5672 had expired 5.1 s before" in caplog.text) is not bool(seen)


def test_a_batch_that_the_server_refuses_is_given_back(listener, client, caplog, monkeypatch):
    """Where a thread polls: dropped, each message would keep its credit until the link goes."""
    runs = []
    monkeypatch.setattr(
        "oslo_messaging._drivers.base.PollStyleListenerAdapter.start",
        lambda self, callback: runs.append(callback),
    )

    def server(messages):
        raise RuntimeError("cannot schedule new futures after shutdown")

    adapter = ListenerAdapter(listener, 10, 0.0)
    adapter.start(server)
    monkeypatch.setattr(listener, "load", lambda body: ({}, {}, None))
    come(listener, message(b"a"), message(b"b"))
    batch = listener.poll(0.0, 2, 0.0)
    with caplog.at_level(logging.ERROR):
        runs[0](batch)
    assert client.settled == [(1, Outcome.RELEASED), (2, Outcome.RELEASED)]
    assert "did not take 2 message(s) from q" in caplog.text


def test_whatever_decoding_raises_rejects_the_message_once_and_frees_its_body(
    listener, client, caplog, monkeypatch
):
    def load(body):
        raise MemoryError

    monkeypatch.setattr(listener, "load", load)
    come(listener, message(b"a"))
    assert listener.poll(0.0) == []
    listener.hand_to(lambda messages: caught.append(messages[0]))
    caught = []
    come(listener, message(b"b"))
    for _ in range(2):
        with pytest.raises(DecodeError, match="MemoryError"):
            _ = caught[0].message
    assert client.settled == [(1, Outcome.REJECTED), (1, Outcome.REJECTED)]
    assert caplog.text.count("rejected") == 2


def test_a_decoder_that_fails_does_not_keep_the_others(listener, client, monkeypatch):
    seen = []
    decode = listener._decode

    def fail(data):
        if data == b"strange":
            raise RuntimeError("a defect")
        return decode(data)

    monkeypatch.setattr(listener, "_decode", fail)
    listener.hand_to(lambda messages: seen.append(messages[0].msg_id))
    come(listener, b"strange", message(b"b"))
    assert seen == ["b"]
    assert client.settled == [(1, Outcome.REJECTED)]


# -- the I/O thread has died ----------------------------------------------------------------------


class Mortal(Client):
    """A client whose I/O thread dies at once."""

    dead = True

    def ask(self, fn, timeout=5.0):
        return True


class Clock:
    """Monotonic seconds, which waiting makes pass."""

    def __init__(self):
        self.now = 1000.0
        self.waits = []

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(listener_module.time, "monotonic", made.monotonic)
    monkeypatch.setattr(
        listener_module.random, "SystemRandom", lambda: SimpleNamespace(random=lambda: 1.0)
    )
    return made


def mortal(clock, subscribe):
    made = Listener(subscribe, window=100)
    made._ended = SimpleNamespace(wait=clock.wait, set=lambda: None)
    return made


SUBSCRIPTION = SimpleNamespace(
    destinations=[SimpleNamespace(routing_key="events.info")], resemble=lambda other: True
)


def test_a_listener_whose_io_thread_keeps_dying_waits_longer_each_time(clock, caplog):
    clients = []

    def subscribe(queue):
        clients.append(Mortal())
        clients[-1].dead = len(clients) < 9
        return clients[-1], SUBSCRIPTION

    listener = mortal(clock, subscribe)
    with caplog.at_level(logging.ERROR):
        listener._keep_resubscribing()
    assert clock.waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [record.getMessage() for record in caplog.records] == [
        f"The I/O thread has died: listening again on ['events.info'] in {pause}.0 s"
        for pause in (1, 2, 4, 8, 16, 30, 30, 30)
    ]


def test_it_tries_again_where_it_could_not_subscribe(clock, caplog):
    outcomes = [None, Closed("no"), OSError(24, "Too many open files"), None]

    def subscribe(queue):
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        client = Mortal()
        client.dead = bool(outcomes)
        return client, SUBSCRIPTION

    listener = mortal(clock, subscribe)
    listener._keep_resubscribing()
    assert clock.waits == [1, 2, 4]
    assert caplog.text.count("Listening again has failed") == 2
    assert not listener.client.dead


def test_one_thread_at_a_time_revives(clock, monkeypatch):
    started = []
    monkeypatch.setattr(
        listener_module.threading,
        "Thread",
        lambda **kw: SimpleNamespace(start=lambda: started.append(kw["name"])),
    )
    listener = mortal(clock, lambda queue: (Mortal(), SUBSCRIPTION))
    listener._resubscribe_soon()
    listener._resubscribe_soon()
    assert started == ["amqp1-revive"]


def test_a_listener_that_is_stopped_is_not_revived(clock):
    listener = mortal(clock, lambda queue: (Mortal(), SUBSCRIPTION))
    listener.queue.stop()
    listener._keep_resubscribing()
    assert clock.waits == []


def test_a_poller_waits_no_longer_than_until_it_is_time_to_subscribe(clock, monkeypatch):
    clients = []

    def subscribe(queue):
        clients.append(Mortal())
        return clients[-1], SUBSCRIPTION

    listener = mortal(clock, subscribe)
    untils = []
    monkeypatch.setattr(listener.queue, "take", untils.append)
    assert listener.poll(timeout=None) == []
    assert (untils, len(clients)) == ([1001.0], 1)
    clock.now = 1001.0
    assert listener.poll(timeout=None) == []
    assert len(clients) == 2
    assert listener.poll(timeout=0.5) == []
    assert (untils, len(clients)) == ([1001.0, 1001.0, 1001.5], 2)


def test_where_clocks_may_be_wrong_nothing_expires(listener, client, monkeypatch):
    monkeypatch.setattr("amqp1_driver.driver.listener.time.time", lambda: 1e6)
    found = []
    listener.hand_to(lambda messages: found.append(messages[0].msg_id))
    come(listener, expiring(1000))
    assert (found, client.settled) == (["a"], [])
