# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The hostname of the Open frame; RabbitMQ's spelling is ``vhost:NAME``."""

from amqp1_driver.addressing.peer import Peer, choose
from amqp1_driver.protocol.vhost import VirtualHost

RABBIT = choose(Peer("RabbitMQ", (4, 3)))
ROUTER = choose(Peer("skupper-router", (3, 4)))


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
