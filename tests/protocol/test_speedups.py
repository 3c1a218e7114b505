# SPDX-License-Identifier: Apache-2.0

"""What only the path in C can do wrong; all else is in the tests that run over both paths."""

import gc
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import cproton
import proton
import pytest

from amqp1_driver.connection.states import LinkState
from amqp1_driver.engine import _speedups, deliveries, speedups
from amqp1_driver.engine import session_window as windows
from amqp1_driver.engine.deliveries import ProtonDeliveries
from amqp1_driver.engine.speedups import SpeedupDeliveries
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"


class Link:
    """As much of a link as the module looks at."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.fixture
def rebound():
    """The module as it was, after a test that gave it something else."""
    yield
    speedups.bind()


@pytest.mark.usefixtures("rebound")
@pytest.mark.parametrize(
    ("addresses", "error"),
    [({}, KeyError), ({"pn_collector_peek": "here"}, TypeError), ([], TypeError)],
)
def test_what_is_bound_has_to_be_whole(addresses, error):
    with pytest.raises(error):
        _speedups.bind(addresses, (1, 2, 3, 4), None, None, None)
    world = World(SpeedupDeliveries()).start()  # still bound as before
    assert world.cast().future.done


def test_a_module_of_other_sources_is_not_used(monkeypatch):
    def older(addresses, constants):
        """As a module that was built before."""

    monkeypatch.setattr(_speedups, "bind", older)
    with pytest.raises(ImportError, match="was built from other sources"):
        speedups.bind()


@pytest.mark.parametrize("signature", ["", "int(*)(struct pn_link_t *, int)"])
def test_another_proton_is_not_called(monkeypatch, signature):
    monkeypatch.setitem(_speedups.FUNCTIONS, "pn_link_credit", signature)
    with pytest.raises(ImportError, match="this proton has another pn_link_credit"):
        speedups.bind()


def test_a_function_that_proton_lacks_is_not_called(monkeypatch):
    monkeypatch.setitem(_speedups.FUNCTIONS, "pn_link_levitate", "void(*)(void)")
    with pytest.raises(ImportError, match="this proton has another pn_link_levitate"):
        speedups.bind()


def test_functions_of_the_window_that_the_binding_lacks_have_no_address(monkeypatch):
    monkeypatch.setattr(windows, "_remote", None)
    assert windows.address_of("pn_session_remote_incoming_window") == 0
    assert windows.address_of("pn_session_outgoing_bytes") > 0


def test_a_function_that_the_binding_has_needs_an_address():
    addresses = dict.fromkeys(_speedups.FUNCTIONS, 1) | {"pn_link_credit": 0}
    with pytest.raises(KeyError, match="the address of pn_link_credit is 0"):
        _speedups.bind(addresses, (1, 2, 3, 4), None, None, None)
    world = World(SpeedupDeliveries()).start()  # still bound as before
    assert world.cast().future.done


def test_each_name_that_the_module_uses_is_declared():
    header = Path(speedups.__file__).with_name("_speedups") / "speedups.h"
    names = set(re.findall(r"\bN\((\w+)\)", header.read_text())) - {"name"}
    assert len(names) == 30
    protocols = (
        deliveries.Connection,
        deliveries.SendingLink,
        deliveries.ReceivingLink,
        deliveries.Window,
        deliveries.SendingHandler,
        deliveries.ReceivingHandler,
        speedups.RareCases,
    )
    assert names - set().union(*map(_members, protocols)) == set()


def _members(protocol: type) -> set[str]:
    return set(dir(protocol)) | {
        n for c in protocol.__mro__ for n in vars(c).get("__annotations__", ())
    }


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_speedups.send, (Link(), b"data")),
        (_speedups.settle, (Link(),)),
        (_speedups.settle, (Link(unsettled=[1]), 0, Outcome.ACCEPTED)),
        (_speedups.flow, (Link(impl=1),)),
        (_speedups.flow, (Link(impl=1), "many")),
        (_speedups.credit, (Link(impl="here"),)),
        (_speedups.read, (Link(impl=1),)),
        (_speedups.read, (Link(impl=1), "much")),
        (_speedups.push, (Link(),)),
        (_speedups.push, (Link(transport="here"), b"data")),
        (_speedups.fill, (1, 1)),
        (_speedups.fill, (0, 1, 1)),
        (_speedups.fill, (1, 0, 1)),
        (_speedups.fill, (1, 1, "much")),
        (_speedups.pump, (Link(asked=False, collector="here", links={}),)),
        (_speedups.pump, (Link(asked=False, collector=1, links=[]),)),
    ],
)
def test_what_is_not_of_the_right_type_is_not_given_to_proton(function, arguments):
    with pytest.raises(TypeError):
        function(*arguments)


@pytest.mark.parametrize("function", [_speedups.credit, _speedups.may_send, _speedups.pump])
def test_what_is_not_there_is_not_given_to_proton(function):
    with pytest.raises(AttributeError):
        function(Link())
    with pytest.raises(ValueError, match="is NULL"):
        function(Link(impl=0, asked=False, collector=0, links={}))


def test_a_key_is_accepted_once():
    world = World(SpeedupDeliveries()).start()
    listener = world.listen()
    world.arrive(ANY)
    delivery = listener.deliveries.pop()
    link, key = delivery.link, delivery.key
    assert _speedups.settle(link, key, Outcome.ACCEPTED) is True
    assert _speedups.settle(link, key, Outcome.ACCEPTED) is False
    assert _speedups.settle(link, "another", Outcome.ACCEPTED) is False


class Failure(Exception):
    """Of a handler."""


PROVOKED = {
    "link_delivery": lambda world: world.arrive(ANY),
    "link_outcome": lambda world: world.outcome(p.Accepted()),
    "link_credit": lambda world: world.grant(5, "unicast.ex.topic"),
}


@pytest.mark.parametrize("told", PROVOKED)
def test_what_a_handler_raises_costs_the_connection(path, told, monkeypatch, caplog):
    world = World(path).start()
    world.listen()
    world.hold()
    world.cast()
    calls = []

    def fail(*args):
        calls.append(args)
        raise Failure

    engine = world.connection.engine._connection
    handlers = [link.handler for link in engine.all_links]
    with monkeypatch.context() as patch:
        for handler in handlers:
            if hasattr(handler, told):
                patch.setattr(handler, told, fail)
        PROVOKED[told](world)
    assert len(calls) == 1
    assert "is given up after an internal error" in caplog.text
    assert world.advance(5).state == "ready"


def test_what_a_handler_raises_is_raised_whatever_goes_with_the_event(path, monkeypatch):
    engine = World(path).start().connection.engine._connection
    before = cproton.retained_count()
    # proton lets go of it by a function of Python's, whose calls are checked only at first
    engine.pn_collector.put(object(), proton.EventType("of an object"))
    let_go = cproton.pn_pyref_decref
    monkeypatch.setattr(let_go, "__code__", let_go.__code__.replace())
    assert cproton.retained_count() == before + 1

    def fail(event):
        raise Failure

    monkeypatch.setattr(engine, "dispatch", fail)
    with pytest.raises(Failure):
        path.pump(engine)
    assert cproton.retained_count() == before
    assert engine.pn_collector.peek() is None


@pytest.mark.parametrize("told", PROVOKED)
def test_a_handler_may_let_go_of_its_link(path, told, monkeypatch, caplog):
    world = World(path).start()
    world.listen()
    world.hold()
    world.cast()
    engine = world.connection.engine._connection
    gone = []

    def let_go(handler, *args):
        gone.append(handler)
        handler.detach()
        gc.collect()

    for owner in {type(link.handler) for link in engine.all_links}:
        if hasattr(owner, told):
            monkeypatch.setattr(owner, told, let_go)
    PROVOKED[told](world)
    assert len(gone) == 1
    assert gone[0].state is LinkState.DETACHED
    assert "internal error" not in caplog.text
    assert world.advance(5).state == "ready"


def _growth(path):
    """Blocks of memory that 500 rounds leave behind, those of the scripted peer included."""
    world = World(path).start()
    listener = world.listen()

    def blocks(rounds):
        for _ in range(rounds):
            world.answer(world.call())
            world.cast()
            world.cast(settled=True)
            world.arrive(ANY)
            world.settle(listener.deliveries.pop())
            for log in (world.peer.script.log, world.peer.script.transfers, world.peer.script.sent):
                log.clear()
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks(250)
    return blocks(500) - before


def test_no_memory_is_left_behind_by_messages():
    # a block forgotten with each message of a kind would be 500
    assert abs(_growth(SpeedupDeliveries()) - _growth(ProtonDeliveries())) < 100


def test_input_for_which_proton_has_no_room_is_looked_at_once(monkeypatch):
    """The module leaves it to the other path, which pushes it in parts."""
    world = World(SpeedupDeliveries()).start()
    world.cast()
    engine = world.connection.engine._connection
    taken, read, questions = [], [], engine.questions
    process_input = engine.process_input

    def take_in_parts(data):
        taken.append(process_input(data[:7]))
        return taken[-1]

    monkeypatch.setattr(engine, "process_input", take_in_parts)
    monkeypatch.setattr(
        engine,
        "questions",
        SimpleNamespace(read=lambda data: read.append(bytes(data)) or questions.read(data)),
    )
    monkeypatch.setattr(speedups.SpeedupDeliveries, "push", staticmethod(speedups.RareCases().push))
    link = world.link(ANY)
    before = len(world.peer.frames(p.Flow))
    link.session.core.flow(link.session, link, delivery_count=1, link_credit=50, echo=True)
    world.run()
    assert len(world.peer.frames(p.Flow)) == before + 1
    assert len(read) == 1
    assert sum(taken) == len(read[0])
    assert len(taken) > 1
    op = world.cast()
    assert (op.future.done, op.future.error) == (True, None)
