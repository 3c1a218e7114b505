# SPDX-License-Identifier: Apache-2.0
import proton
import pytest
from proton.utils import BlockingConnection

from amqp1_driver.testing.fixture import BusFixture, BusProcess


def through(url, address="queue.for.test", **kwargs):
    """Sends a message through the bus and receives it."""
    client = BlockingConnection(url, timeout=10, **kwargs)
    receiver = client.create_receiver(address, credit=1)
    client.create_sender(address).send(proton.Message(body="hello"), timeout=False)
    body = receiver.receive(10).body
    receiver.accept()
    client.close()
    return body


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_a_bus_in_a_thread(mode):
    with BusFixture(mode) as bus:
        assert bus.url() == f"amqp://127.0.0.1:{bus.port}"
        assert bus.url("amqp+oslo") == f"amqp+oslo://127.0.0.1:{bus.port}"
        assert bus.url(host="localhost") == f"amqp://localhost:{bus.port}"
        assert bus.bus.mode == mode


def test_messages_pass_and_the_port_stays_over_a_restart():
    with BusFixture("broker") as bus:
        assert through(bus.url("amqp")) == "hello"
        url = bus.url()
        bus.restart()
        assert bus.url() == url
        assert through(url) == "hello"


def test_the_methods_of_fixtures():
    fixture = BusFixture("router", users={"u": "p"})
    with pytest.raises(RuntimeError, match="not running"):
        fixture.url()
    fixture.setUp()
    with pytest.raises(RuntimeError, match="runs already"):
        fixture.setUp()
    assert fixture.url() == f"amqp://u:p@127.0.0.1:{fixture.port}"
    fixture.reset()
    assert fixture.getDetails() == {}
    fixture.cleanUp()
    fixture.cleanUp()
    with pytest.raises(RuntimeError, match="not running"):
        fixture.url()


def test_a_bus_in_a_process_is_killed_and_comes_back_on_its_port():
    with BusProcess("broker", "--user", "u:p", "--websocket", "0") as bus:
        assert bus.url() == f"amqp://u:p@127.0.0.1:{bus.port}"
        assert through(bus.url(), allow_insecure_mechs=True) == "hello"
        first, port = bus.pid, bus.port
        client = BlockingConnection(bus.url(), timeout=10, allow_insecure_mechs=True)
        bus.kill()
        assert bus.pid is None
        with pytest.raises(proton.ConnectionException):
            client.wait(lambda: False, timeout=10)
        bus.start()
        with pytest.raises(RuntimeError, match="runs already"):
            bus.start()
        assert (bus.port, bus.pid != first) == (port, True)
        assert through(bus.url(), allow_insecure_mechs=True) == "hello"
        bus.restart()
        assert bus.terminate() == 0
        assert bus.terminate() == 0
        bus.kill()


def test_a_process_that_does_not_come_up_says_why():
    with pytest.raises(RuntimeError, match=r"(?s)did not come up: .*no-such-option"):
        BusProcess("router", "--no-such-option").start()
