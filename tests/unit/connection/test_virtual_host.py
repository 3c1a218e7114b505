# SPDX-License-Identifier: Apache-2.0

"""The hostname of the Open frame; RabbitMQ's spelling is ``vhost:NAME``."""

from amqp1_driver.addressing.peer import Peer, profile_for
from amqp1_driver.connection.virtual_host import VirtualHost

RABBIT = profile_for(Peer("RabbitMQ", (4, 3)))
ROUTER = profile_for(Peer("skupper-router", (3, 4)))


def test_without_a_virtual_host_nothing_is_asked_for():
    vhost = VirtualHost(None)
    vhost.refused()
    assert (vhost.hostname, vhost.learn(RABBIT)) == (None, False)


def test_rabbitmq_is_asked_again_once_it_is_known():
    vhost = VirtualHost("prod")
    assert vhost.hostname == "prod"
    assert vhost.learn(RABBIT)
    assert vhost.hostname == "vhost:prod"
    vhost.refused()  # the connection was given up for that
    assert vhost.hostname == "vhost:prod"
    assert not vhost.learn(RABBIT)


def test_a_peer_that_does_not_open_is_asked_in_either_way_by_turns():
    vhost = VirtualHost("prod")
    vhost.refused()
    assert vhost.hostname == "vhost:prod"
    vhost.refused()
    assert vhost.hostname == "prod"


def test_what_has_worked_stays():
    vhost = VirtualHost("prod")
    vhost.refused()
    assert not vhost.learn(RABBIT)
    assert vhost.hostname == "vhost:prod"


def test_another_bus_after_failover_is_asked_its_own_way():
    vhost = VirtualHost("prod", prefixed=True)
    assert vhost.hostname == "vhost:prod"
    assert vhost.learn(ROUTER)
    assert vhost.hostname == "prod"
