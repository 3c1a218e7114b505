# SPDX-License-Identifier: Apache-2.0

"""A peer that sends links or the connection elsewhere (2.8.16, 2.8.18)."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.wire import Symbol

from .world import World

ANY = "unicast.ex.topic"


@pytest.fixture
def world(path):
    """A connection that is ready, and may be redirected to any host."""
    return World(path, redirect_hosts=["*"]).start()


def redirect(condition, **info):
    """The error of a redirect; info as the specification names its keys."""
    return p.Error(
        condition=condition,
        description="go there",
        info={Symbol(name.replace("_", "-")): value for name, value in info.items()},
    )


def close(world, **info):
    """The peer closes the connection, and names another."""
    world.core.send(p.Close(error=redirect("amqp:connection:redirect", **info)))
    return world.run()


def hosts(world):
    return [(str(host), host.network) for host in world.port.connects]


# -- connections -------------------------------------------------------------------------------


def test_a_connection_goes_where_it_is_sent_at_once_with_all_that_waits(world):
    listener = world.listen()
    world.no_credit(ANY)
    op = world.cast()
    world.peer.script.rules.clear()
    close(world, network_host="10.0.0.2", port=5673, hostname="vm2").advance(0)
    assert hosts(world) == [("host0:5672", None), ("vm2:5673", "10.0.0.2")]
    assert world.peer.frames(p.Open)[-1].performative.hostname == "vm2"
    assert (world.state, op.future.done, op.future.error) == ("ready", True, None)
    assert listener.ready == 2


def test_before_anything_is_attached_too(path):
    world = World(path, redirect_hosts=["new"])
    world.peer.override().expect_open().call(
        lambda event: (
            event.core.send(p.Open(container_id="old"))
            or event.core.send(
                p.Close(error=redirect("amqp:connection:redirect", network_host="new"))
            )
        )
    )
    world.start().advance(0)
    assert (hosts(world)[1], world.state) == (("new:5672", None), "ready")


def test_what_was_on_the_way_is_in_doubt(world):
    world.hold()
    op = world.cast()
    close(world, network_host="new")
    assert isinstance(op.future.error, exceptions.InDoubt)


def test_a_circle_is_not_followed_but_tried_later_as_any_failure(path, caplog):
    world = World(path, hosts=2, redirect_hosts=["new:5672"]).start()
    close(world, network_host="new").advance(0)
    close(world, network_host="host0", port=5672)
    assert [host for host, _ in hosts(world)] == ["host0:5672", "new:5672"]
    assert (
        "connection lost; the redirect is not followed: it leads in a circle "
        "(condition=amqp:connection:redirect, description=go there)" in caplog.text
    )
    world.advance(5)
    assert (world.state, len(hosts(world))) == ("ready", 3)


def test_more_than_five_in_a_minute_are_not_followed(path):
    world = World(path, redirect_hosts=["*"]).start()
    for number in range(6):
        close(world, network_host=f"h{number}").advance(0)
    assert [host for host, _ in hosts(world)] == [
        "host0:5672",
        "h0:5672",
        "h1:5672",
        "h2:5672",
        "h3:5672",
        "h4:5672",
    ]
    assert "there were 5 within 60 s already" in str(world.connection.last_error)
    world.advance(5)
    assert hosts(world)[-1] == ("host0:5672", None)


def test_none_is_followed_away_from_tls(path):
    world = World(path, ssl=True, redirect_hosts=["*"]).start()
    close(world, network_host="new", scheme="amqp").advance(5)
    assert hosts(world) == [("host0:5672", None)] * 2
    world = World(path, ssl=True, redirect_hosts=["*"]).start()
    close(world, network_host="new", scheme="amqps").advance(0)
    assert hosts(world)[1] == ("new:5672", None)


def test_where_the_new_place_does_not_answer_the_old_one_is_asked_again(path):
    world = World(path, hosts=2, redirect_hosts=["n?w"]).start()
    world.modes["new:5672"] = "refuse"
    close(world, network_host="new").advance(5)
    assert ([host for host, _ in hosts(world)], world.state) == (
        ["host0:5672", "new:5672", "host0:5672"],
        "ready",
    )


def test_a_redirect_that_leads_nowhere_is_an_ordinary_failure(world):
    close(world).advance(5)
    assert hosts(world) == [("host0:5672", None)] * 2
    assert world.state == "ready"


# -- where it may lead ---------------------------------------------------------------------------


def test_by_default_none_is_followed_to_a_host_that_the_transport_url_does_not_name(path, caplog):
    world = World(path, hosts=2).start()
    close(world, network_host="evil", hostname="host1").advance(5)
    close(world, hostname="evil").advance(5)
    assert {host for host, _ in hosts(world)} == {"host0:5672", "host1:5672"}
    assert (
        "the redirect is not followed: host1:5672 at evil is not in the transport URL, and "
        "redirect_hosts does not permit it"
    ) in caplog.text
    assert "the redirect is not followed: evil:5672 is not in the transport URL" in caplog.text


def test_to_another_host_of_the_url_it_is(path):
    world = World(path, hosts=3).start()
    close(world, network_host="host2", port=5672).advance(0)
    assert (hosts(world), world.state) == ([("host0:5672", None), ("host2:5672", None)], "ready")


def test_not_to_another_port_of_a_host_of_the_url(path):
    world = World(path, hosts=2).start()
    close(world, network_host="host1", port=6000).advance(5)
    assert hosts(world)[1] == ("host1:5672", None)


def test_with_tls_the_certificate_proves_the_name_wherever_the_connection_leads(path):
    world = World(path, hosts=2, ssl=True).start()
    close(world, hostname="host1", network_host="10.0.0.2").advance(0)
    assert hosts(world)[1] == ("host1:5672", "10.0.0.2")
    world = World(path, hosts=2, ssl=True).start()
    close(world, hostname="evil", network_host="host1").advance(5)
    assert hosts(world)[1] == ("host1:5672", None)


def test_a_link_is_not_followed_elsewhere_either(path, caplog):
    world = World(path).start()
    send_on(world, ANY, 1, network_host="evil")
    op = world.cast(timeout=10)
    world.advance(5)
    assert (hosts(world), op.future.error) == ([("host0:5672", None)], None)
    assert "evil:5672 is not in the transport URL" in caplog.text


# -- links -------------------------------------------------------------------------------------


def refuse(event, error):
    """2.6.3: an attach without terminus, then a detach with the error."""
    link, attach = event.link, event.link.attach
    ends = (
        {"source": attach.source, "target": None}
        if link.client_sends
        else {"source": None, "target": attach.target, "initial_delivery_count": 0}
    )
    channel = link.session.our_channel
    event.core.send(
        p.Attach(name=attach.name, handle=link.handle, role=not attach.role, **ends), channel
    )
    link.detached = True
    event.core.send(p.Detach(handle=link.handle, closed=True, error=error), channel)


def send_on(world, where, times=1, /, **info):
    """The peer refuses links to an address, and names another place."""
    world.peer.override(times).expect_attach(address=where).call(
        lambda event: refuse(event, redirect("amqp:link:redirect", **info))
    )


def test_a_sender_is_attached_where_it_is_sent_and_what_waits_goes_along(world):
    send_on(world, ANY, address="moved")
    op = world.cast(retry=0)
    world.advance(0)
    assert (op.future.done, op.future.error) == (True, None)
    assert world.peer.transfers[-1].link.address == "moved"
    # it is kept for those that follow
    assert world.cast().future.done
    assert world.peer.transfers[-1].link.address == "moved"


def test_a_receiver_is_attached_where_it_is_sent(world):
    send_on(world, ANY, address="moved")
    listener = world.listen(credit=10)
    world.advance(0)
    assert listener.ready == 1
    world.arrive("moved", "hello")
    assert listener.bodies == [b"hello"]
    assert world.link("moved").credit == 9


def test_a_circle_of_addresses_is_not_followed_but_tried_with_pauses(world, caplog):
    send_on(world, ANY, None, address="moved")
    send_on(world, "moved", None, address=ANY)
    op = world.cast(timeout=10)
    world.advance(0.15)
    assert [a.target.address for a in world.attaches("sender")] == [ANY, "moved"] * 2
    assert not op.future.done
    assert "the redirect is not followed: it leads in a circle" in caplog.text
    world.peer.script.rules.clear()
    world.advance(5)
    assert (op.future.done, op.future.error) == (True, None)


def test_a_link_that_is_sent_to_another_host_takes_the_connection_along(world):
    send_on(world, ANY, network_host="new", port=5673, address=ANY)
    op = world.cast()
    world.advance(0)
    assert (hosts(world)[1], world.state) == (("new:5673", None), "ready")
    assert (op.future.done, op.future.error) == (True, None)


def test_but_not_to_and_fro(world, caplog):
    send_on(world, ANY, None, network_host="new")
    op = world.cast(timeout=10)
    world.advance(0)
    assert hosts(world)[1] == ("new:5672", None)
    world.peer.script.rules.clear()
    send_on(world, "unicast.ex.other", None, network_host="host0")
    world.cast("other", timeout=5)
    world.advance(1)
    assert len(hosts(world)) == 2
    assert "it leads in a circle" in caplog.text
    assert op.future.done


@pytest.mark.parametrize("info", [{}, {"port": 70000}, {"hostname": 5}])
def test_a_link_that_is_sent_nowhere_is_attached_again_with_pauses(world, info):
    send_on(world, ANY, 2, **info)
    op = world.cast(timeout=10)
    assert not op.future.done
    world.advance(2)
    assert (op.future.done, op.future.error) == (True, None)
    assert len(hosts(world)) == 1


# -- what is unknown ---------------------------------------------------------------------------


def test_a_link_with_an_unknown_condition_is_attached_again_with_pauses(world):
    world.peer.override(3).expect_attach(address=ANY).refuse("vendor:strange", "odd")
    op = world.cast(timeout=30)
    assert (op.future.done, len(world.attaches("sender"))) == (False, 1)
    world.advance(0.2)
    assert len(world.attaches("sender")) == 2
    world.advance(5)
    assert (op.future.done, op.future.error) == (True, None)


def test_a_connection_closed_with_an_unknown_condition_goes_on_at_the_next_host(path, caplog):
    world = World(path, hosts=2).start()
    world.core.send(p.Close(error=p.Error(condition="vendor:strange", description="odd")))
    world.run().advance(5)
    assert ([host for host, _ in hosts(world)], world.state) == (
        ["host0:5672", "host1:5672"],
        "ready",
    )
    assert (
        "Lost connection to host0:5672: connection lost (condition=vendor:strange, "
        "description=odd); trying host1:5672 in "
    ) in caplog.text
