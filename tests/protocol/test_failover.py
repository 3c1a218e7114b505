# SPDX-License-Identifier: Apache-2.0

"""The life of the logical connection: hosts, deadlines, close."""

import itertools

import proton
import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection import connection as module
from amqp1_driver.connection.operation import Stage
from amqp1_driver.options import Host
from amqp1_driver.testing import performatives as p

from .world import World, rabbitmq

ANY = "unicast.ex.topic"


def tried(world):
    return [str(host) for host in world.port.connects]


# -- every kind of failure ---------------------------------------------------------------------


FAILURES = {
    "refused": lambda world: world.modes.update({"host0:5672": "refuse"}),
    "reset": lambda world: world.peer.override().expect_header().drop(),
    "closed by tcp": lambda world: world.peer.override().expect_open().finish(),
    "no amqp": lambda world: world.peer.override().expect_header().raw(b"HTTP/1.1 400 Bad\r\n"),
    "sasl": lambda world: world.peer.override().expect_sasl_init().respond(outcome=1),
    "no mechanism": lambda world: (
        world.peer.override().expect_header(3).respond(mechanisms=("GSSAPI",))
    ),
    "open refused": lambda world: (
        world.peer.override().expect_open().respond().close("amqp:not-allowed", "unknown vhost")
    ),
    "unauthorized": lambda world: (
        world.peer.override().expect_open().respond().close("amqp:unauthorized-access", "no")
    ),
    "closed while attaching": lambda world: (
        world.peer.override()
        .expect_attach(dynamic=True)
        .close("amqp:connection:forced", "shutdown")
    ),
}


@pytest.mark.parametrize("abrupt", [False, True], ids=["", "abrupt"])
@pytest.mark.parametrize("failure", FAILURES)
def test_every_kind_of_failure_goes_on_to_the_next_host(failure, abrupt):
    world = World(hosts=3, abrupt=abrupt)
    FAILURES[failure](world)
    world.start()
    assert world.state == "backoff"
    assert isinstance(world.connection.last_error, exceptions.AmqpError)
    assert world.connection.last_error.host == "host0:5672"
    world.advance(0)
    assert (tried(world), world.state) == (["host0:5672", "host1:5672"], "ready")
    assert (world.context.host, world.connection.last_error) == ("host1:5672", None)


@pytest.mark.parametrize("abrupt", [False, True], ids=["", "abrupt"])
@pytest.mark.parametrize("failure", ["sasl", "no mechanism", "unauthorized"])
def test_who_is_not_let_in_is_told_so(failure, abrupt):
    world = World(abrupt=abrupt)
    FAILURES[failure](world)
    world.start()
    assert isinstance(world.connection.last_error, exceptions.AuthenticationFailed)


@pytest.mark.parametrize("abrupt", [False, True], ids=["", "abrupt"])
def test_the_peer_s_reason_is_kept(abrupt):
    world = World(abrupt=abrupt)
    world.peer.override().expect_open().respond().close("amqp:not-allowed", "unknown vhost")
    world.peer.override().expect_close().finish()
    world.start()
    error = world.connection.last_error
    assert (error.condition, error.description) == ("amqp:not-allowed", "unknown vhost")


def test_the_peer_s_close_is_answered(path):
    world = World(path).start()
    world.peer.close("amqp:connection:forced", "shutdown")
    world.run()
    assert len(world.peer.frames(p.Close)) == 1
    assert world.state == "backoff"
    assert isinstance(world.connection.last_error, exceptions.ConnectionLost)
    assert str(world.connection.last_error) == (
        "connection lost (host=host0:5672, condition=amqp:connection:forced, description=shutdown)"
    )
    assert world.advance(5).state == "ready"


def test_a_close_without_a_reason_is_a_loss_too(path):
    world = World(path, hosts=2).start()
    world.peer.close()
    world.run().advance(2)
    assert (world.state, world.context.host) == ("ready", "host1:5672")


def test_garbage_costs_the_connection(path):
    world = World(path).start()
    world.peer.raw(b"\x00\x00\x00\x01garbage")
    world.run()
    assert isinstance(world.connection.last_error, exceptions.ConnectionLost)
    assert world.advance(5).state == "ready"


# -- when and where to --------------------------------------------------------------------------


def test_all_hosts_are_tried_at_once_then_there_is_a_growing_pause(path):
    world = World(path, hosts=3)
    world.modes.update({f"host{n}:5672": "refuse" for n in range(3)})
    world.start()
    times = []
    while len(times) < 12:
        before = len(world.port.connects)
        world.advance(0.01)
        times += [world.clock()] * (len(world.port.connects) - before)
    assert tried(world)[:6] == ["host0:5672", "host1:5672", "host2:5672"] * 2
    # connects 0 to 2 happen at once; each third comes after a pause
    rounds = times[2::3]
    gaps = [rounds[0] - 1000.0] + [b - a for a, b in itertools.pairwise(rounds)]
    for gap, longest in zip(gaps, (1.0, 2.0, 4.0, 8.0), strict=False):
        assert 0.5 * longest - 0.02 <= gap <= longest + 0.02


def test_the_pause_has_an_upper_bound(path):
    world = World(path, connection_retry_interval_max=3.0)
    world.modes["host0:5672"] = "refuse"
    world.start().advance(300)
    assert 100 <= len(world.port.connects) <= 215


def test_after_a_loss_the_next_host_is_tried_within_a_second(path):
    world = World(path, hosts=2).start()
    world.drop()
    assert world.state == "backoff"
    world.advance(1.0)
    assert (world.state, world.context.host) == ("ready", "host1:5672")


def test_context_is_withdrawn_at_the_loss_and_published_anew(path):
    world = World(path).start()
    first = world.context
    world.drop()
    assert world.contexts == [first, None]
    world.advance(5)
    assert [context and context.generation for context in world.contexts] == [1, None, 2]


def test_a_connection_that_never_was_ready_withdraws_nothing(path):
    world = World(path)
    world.peer.override().expect_attach(dynamic=True).drop()
    world.start().advance(5)
    assert [context.generation for context in world.contexts] == [1]


def test_the_pause_starts_over_after_a_success(path):
    world = World(path)
    world.modes["host0:5672"] = "refuse"
    world.start().advance(100)
    world.modes.clear()
    world.advance(30)
    assert world.state == "ready"
    world.drop()
    world.modes["host0:5672"] = "refuse"
    world.advance(1.0)
    count = len(world.port.connects)
    world.advance(1.1)
    assert len(world.port.connects) > count


@pytest.mark.parametrize("selection", ["ordered", "shuffle", "round-robin"])
def test_the_start_host_is_chosen_by_strategy(path, selection):
    world = World(path, hosts=3, host_selection=selection).start()
    assert world.port.connects[0] in world.hosts
    if selection == "ordered":
        assert world.port.connects == [Host("host0", 5672)]


# -- deadlines -----------------------------------------------------------------------------------


def test_connecting_has_a_deadline(path):
    world = World(path, hosts=2, connect_timeout=10)
    world.modes["host0:5672"] = "silent"
    world.start().advance(9.9)
    assert (world.state, tried(world)) == ("connecting", ["host0:5672"])
    world.advance(0.2)
    assert (world.state, tried(world)) == ("ready", ["host0:5672", "host1:5672"])


@pytest.mark.parametrize(
    ("state", "step", "awaited"),
    [
        ("opening", lambda peer: peer.override().expect_header().silence(), "SASL and AMQP Open"),
        ("opening", lambda peer: peer.override().expect_open().silence(), "SASL and AMQP Open"),
        ("attaching", lambda peer: peer.override().expect_begin().silence(), "the reply link"),
        ("attaching", lambda peer: peer.override().expect_attach().silence(), "the reply link"),
    ],
)
def test_every_state_on_the_way_has_a_deadline(path, state, step, awaited):
    world = World(path, hosts=2, connect_timeout=4)
    step(world.peer)
    world.start().advance(3.9)
    assert (world.state, len(tried(world))) == (state, 1)
    assert awaited in world.connection.status_text
    world.clock.advance(0.1)
    world.port.timers.pop().fn()
    assert world.connection.last_error.message.startswith(
        f"no answer within 4 s while waiting for {awaited}"
    )
    world.run().advance(0)
    assert (world.state, world.context.host) == ("ready", "host1:5672")


def test_the_deadline_is_one_for_all_states_together(path):
    world = World(path, connect_timeout=4)
    world.modes["host0:5672"] = "silent"
    world.start().advance(3)
    world.modes.clear()
    world.peer.override().expect_open().silence()
    world.run()
    assert world.state == "opening"
    world.advance(1.1)
    assert len(tried(world)) == 1
    assert world.state == "backoff"


def test_a_connection_that_is_ready_has_no_deadline(path):
    world = World(path, connect_timeout=4).start()
    assert world.port.timers.live == set()
    assert world.advance(1000).state == "ready"


def test_a_silent_peer_is_noticed_by_the_idle_timeout(path):
    world = World(path, idle_timeout=10).start()
    op = world.call(timeout=1000)
    world.advance(9)
    assert world.state == "ready"
    world.advance(12)
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert world.peer.script.cores[0].remote_open.idle_time_out in (5000, 10000)


def test_a_peer_that_wants_signs_of_life_gets_them(path):
    world = World(path, peer={"idle_time_out": 4000}).start()
    world.advance(21)
    beats = [entry for entry in world.peer.frames(None)]
    assert 9 <= len(beats) <= 12


# -- messages without a connection ---------------------------------------------------------------


def test_retry_counts_whole_rounds_through_the_hosts(path):
    world = World(path, hosts=2)
    world.modes.update({"host0:5672": "refuse", "host1:5672": "refuse"})
    world.start()
    none, one, ever = (world.cast(retry=retry, timeout=100) for retry in (0, 1, None))
    assert not none.future.done
    world.advance(0)
    assert isinstance(none.future.error, exceptions.ConnectionFailed)
    assert not one.future.done
    world.advance(1.1)
    assert isinstance(one.future.error, exceptions.ConnectionFailed)
    world.advance(60)
    assert (ever.future.done, ever.stage) == (False, Stage.QUEUED)
    world.advance(40)
    assert isinstance(ever.future.error, exceptions.DeadlineExpired)


def test_wrong_credentials_end_bounded_retries_at_once_but_not_unbounded_ones(path):
    world = World(path)
    world.peer.override(None).expect_sasl_init().respond(outcome=1)
    bounded, ever = world.request_pair(3, None)
    world.start()
    assert isinstance(bounded.future.error, exceptions.AuthenticationFailed)
    assert not ever.future.done
    world.peer.script.rules.clear()
    world.advance(5)
    assert (ever.future.done, ever.future.error) == (True, None)


def test_a_loss_is_no_failed_attempt_to_send(path):
    world = World(path, hosts=2).start()
    world.no_credit(ANY)
    op = world.cast(retry=0)
    world.drop()
    assert not op.future.done
    world.peer.script.rules.clear()
    world.advance(1)
    assert (op.future.done, op.future.error) == (True, None)


def test_order_is_kept_over_a_loss(path):
    world = World(path).start()
    world.no_credit(ANY)
    for number in range(5):
        world.cast(body=b"%d" % number)
    world.drop()
    world.cast(body=b"5")
    world.peer.script.rules.clear()
    world.advance(5)
    assert [body for _, body in world.sent()] == ["0", "1", "2", "3", "4", "5"]


def test_what_waits_ends_at_its_deadline(path):
    world = World(path)
    world.modes["host0:5672"] = "silent"
    world.start()
    op = world.cast(timeout=2)
    world.advance(1.9)
    assert not op.future.done
    world.advance(0.4)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    given_up = world.cast(timeout=20)
    world.connection.cancel(given_up)
    world.modes.clear()
    world.run()
    assert world.sent() == []


# -- close --------------------------------------------------------------------------------------


def test_close_is_in_order(path):
    world = World(path).start()
    world.cast()
    world.listen()
    world.close()
    assert (world.state, world.closed) == ("closed", 1)
    assert len(world.peer.frames(p.Close)) == 1
    assert world.contexts[-1] is None
    assert world.port.timers.live == set()


def test_what_waits_or_is_on_its_way_at_the_close_fails(path):
    world = World(path).start()
    world.hold()
    world.no_credit("unicast.ex.blocked")
    sent, call, blocked = world.cast(), world.call(), world.cast("blocked")
    world.close()
    for op in (sent, call, blocked):
        assert op.future.error is not None
    assert isinstance(sent.future.error, exceptions.InDoubt)
    assert isinstance(blocked.future.error, exceptions.Closed)
    assert world.port.timers.live == set()


def test_nothing_can_be_sent_after_it(path):
    world = World(path).start().close()
    op = world.cast()
    assert str(op.future.error) == ("the transport is closed (host=host0:5672, message-id=m1)")
    assert world.advance(60).state == "closed"
    assert len(world.port.connects) == 1


def test_a_peer_that_does_not_answer_the_close_is_left_after_2_s(path):
    world = World(path).start()
    world.peer.silence()
    world.close()
    assert (world.state, world.closed) == ("closing", 0)
    assert isinstance(world.cast().future.error, exceptions.Closed)
    world.advance(module.CLOSE_TIMEOUT - 0.1)
    assert world.closed == 0
    world.advance(0.2)
    assert (world.state, world.closed, world.port.timers.live) == ("closed", 1, set())


def _in_state(state, path):
    world = World(path)
    if state == "connecting":
        world.modes["host0:5672"] = "silent"
    elif state == "opening":
        world.peer.override().expect_open().silence()
    elif state == "attaching":
        world.peer.override().expect_attach().respond(credit=0).call(
            lambda event: setattr(event.core, "silent", False)
        )
        world.peer.override().expect_attach(dynamic=True)
    elif state == "backoff":
        world.modes["host0:5672"] = "refuse"
    if state != "idle":
        world.start()
    assert world.state == state
    return world


@pytest.mark.parametrize(
    "state", ["idle", "connecting", "opening", "attaching", "ready", "backoff"]
)
def test_close_during_every_state(path, state):
    world = _in_state(state, path)
    op = world.cast(timeout=1000)
    world.close()
    assert (world.state, world.closed) == ("closed", 1)
    assert op.future.done
    assert world.port.timers.live == set()
    assert world.core is None
    assert world.advance(100).state == "closed"
    assert len(world.port.connects) == (0 if state == "idle" else 1)


def test_closing_twice_tells_both(path):
    world = World(path).start()
    world.peer.silence()
    world.close().close()
    world.advance(3)
    assert (world.state, world.closed) == ("closed", 2)
    world.close()
    assert world.closed == 3


def test_the_connection_may_break_during_the_close(path):
    world = World(path).start()
    world.peer.override().expect_close().drop()
    world.close()
    assert (world.state, world.closed, world.port.timers.live) == ("closed", 1, set())


def test_links_detached_during_the_close_are_not_attached_again(path):
    world = World(path).start()
    world.no_credit(ANY)
    op = world.cast(timeout=100)
    world.peer.remote_detach(ANY)
    world.run()
    world.peer.silence()
    world.close()
    world.advance(3)
    assert (world.state, world.port.timers.live) == ("closed", set())
    assert op.future.done


# -- when things go wrong inside -------------------------------------------------------------------


def test_an_error_inside_costs_the_connection_and_not_the_loop(path, caplog):
    world = World(path).start()
    listener = world.listen()
    listener.deliver = None
    listener.subscription.sink = None
    world.connection._subscriptions.subscriptions.clear()
    for receiver in listener.subscription.receivers:
        receiver._sink = None
    world.arrive(ANY)
    assert "Connection to host0:5672 is given up after an internal error" in caplog.text
    assert world.advance(5).state == "ready"


def test_when_the_loop_dies_nobody_is_left_waiting(path):
    world = World(path).start()
    world.hold()
    world.no_credit("unicast.ex.blocked")
    listener = world.listen()
    ops = [world.cast(), world.call(), world.cast("blocked")]
    error = exceptions.LoopDied()
    world.connection.abort(error)
    assert all(op.future.error is not None for op in ops)
    assert (world.contexts[-1], listener.errors) == (None, [error])


def test_nobody_is_left_waiting_whatever_else_fails_then(path, caplog):
    world = World(path).start()
    world.no_credit("unicast.ex.blocked")
    broken, listener = world.listen(), world.listen("other")
    op = world.cast("blocked")

    def fail(*_):
        raise ZeroDivisionError

    world.connection._on_ready = fail
    broken.set_exception = fail
    error = exceptions.LoopDied()
    world.connection.abort(error)
    assert (op.future.done, listener.errors) == (True, [error])
    assert caplog.text.count("was not given up in order") == 2


def test_also_when_there_is_no_connection(path):
    world = World(path)
    op = world.cast()
    world.connection.abort(exceptions.LoopDied())
    assert isinstance(op.future.error, exceptions.LoopDied)


def test_without_an_engine_there_is_nothing_to_process(path):
    world = World(path)
    world.connection.data_received(b"x")
    assert world.connection.process() == 0.0


def test_a_message_that_can_not_be_encoded_fails_alone(path, caplog):
    world = World(path).start()
    op = world.request(world.cast().kind)
    op.generation = -1
    op.body = None
    world.send(op)
    assert "internal error" in str(op.future.error)
    assert f"Message {op.message_id} to {ANY} could not be sent" in caplog.text
    assert (world.state, world.cast().future.error) == ("ready", None)


def test_a_settlement_that_fails_costs_the_connection(path, caplog):
    world = World(path).start()
    listener = world.listen()
    world.arrive(ANY)
    world.settle(listener.deliveries[0], "no outcome")
    assert "A message from unicast.ex.topic could not be settled" in caplog.text
    assert world.state == "backoff"
    world.advance(5)
    assert (world.state, listener.ready) == ("ready", 2)


def test_what_was_in_the_mailbox_for_too_long_is_not_sent(path):
    world = World(path).start()
    op = world.request(world.cast().kind, timeout=1)
    world.clock.advance(1.5)
    world.send(op)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert len(world.sent()) == 1


def test_the_trouble_is_told_in_each_state(path):
    world = World(path)
    world.modes["host0:5672"] = "silent"
    assert world.connection.status_text == ""
    world.start()
    assert world.connection.status_text == "host0:5672: waiting for its host name, TCP or TLS"
    world.modes["host0:5672"] = "refuse"
    world.run()
    assert world.connection.status_text == ("last error: refused (host=host0:5672)")
    world.modes.clear()
    world.advance(2)
    assert world.connection.status_text == ""


# -- virtual hosts -----------------------------------------------------------------------------


def hostnames(world):
    return [entry.performative.hostname for entry in world.peer.frames(p.Open)]


def test_rabbitmq_s_name_of_a_virtual_host_is_known_from_its_first_open_frame(path):
    world, _ = rabbitmq(path, virtual_host="nova")
    world.start().advance(0)
    assert (world.state, hostnames(world)) == ("ready", ["nova", "vhost:nova"])
    assert world.connection.last_error is None
    world.drop().advance(5)
    assert hostnames(world) == ["nova", "vhost:nova", "vhost:nova"]


def test_other_buses_take_the_name_as_it_is(path):
    world = World(path, virtual_host="nova").start()
    assert (world.state, hostnames(world)) == ("ready", ["nova"])


def test_naming_it_anew_is_no_failed_attempt(path):
    world, _ = rabbitmq(path, virtual_host="nova", hosts=2)
    world.connection.start()
    (op,) = world.request_pair(0)
    world.run().advance(0)
    assert (op.future.done, op.future.error, tried(world)) == (
        True,
        None,
        ["host0:5672", "host0:5672"],
    )


def test_closing_while_it_is_named_anew(path):
    world, _ = rabbitmq(path, virtual_host="nova")
    world.start()
    assert world.state == "backoff"
    world.close()
    assert (world.state, world.closed, world.port.timers.live) == ("closed", 1, set())


# -- strange Open frames (2.7.1) ------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        ["no", "map"],
        "text",
        17,
        {17: "x", "product": 4, "version": []},
        {1.5: 1, b"\xff": []},
        {"product": "a\n\x1b[m" + "x" * 9000, "version": "9" * 9000},
    ],
    ids=["list", "string", "int", "types", "key", "huge"],
)
def test_strange_properties_in_the_open_frame_cost_nothing(path, properties, caplog):
    world = World(path, peer={"properties": properties}).start()
    assert world.state == "ready"
    assert world.cast().future.error is None
    assert not [record for record in caplog.records if record.exc_info]
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)


@pytest.mark.parametrize("milliseconds", [1, 99])
def test_an_idle_time_out_too_short_to_keep_is_refused(path, milliseconds):
    """2.4.5: close, with an error that says why."""
    world = World(path, peer={"idle_time_out": milliseconds}).start()
    (close,) = [entry.performative for entry in world.peer.frames(p.Close)]
    reason = f"the peer's idle-time-out of {milliseconds} ms is below the 100 ms that are supported"
    assert (close.error.condition, close.error.description) == ("amqp:not-implemented", reason)
    error = world.connection.last_error
    assert isinstance(error, exceptions.ConnectionFailed)
    assert reason in str(error)
    assert world.state == "backoff"


def test_an_idle_time_out_of_a_tenth_of_a_second_is_kept(path):
    assert World(path, peer={"idle_time_out": 100}).start().state == "ready"


def test_an_open_frame_that_can_not_be_read_says_so_in_one_line(path, monkeypatch, caplog):
    def unreadable(self):
        raise TypeError("unhashable type: 'list'")

    monkeypatch.setattr(proton.Connection, "remote_properties", property(unreadable))
    assert World(path).start().state == "ready"
    (record,) = [r for r in caplog.records if "Open frame" in r.getMessage()]
    assert record.getMessage() == (
        "The properties in the Open frame of the peer are ignored: "
        "TypeError(\"unhashable type: 'list'\")"
    )
    assert record.exc_info is None
