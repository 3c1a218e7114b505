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

"""How the virtual host is named in the Open frame (AMQP 1.0, 2.7.1: hostname).

RabbitMQ wants a prefix before it, and what the peer is, only its own Open
frame tells.  A peer that does not even open may miss the prefix too, so the
spellings take turns until one has worked.  Pure.
"""

from amqp1_driver.addressing.peer import RABBITMQ_VHOST_PREFIX, BusProfile

PREFIXES = ("", RABBITMQ_VHOST_PREFIX)


class VirtualHost:
    """The name, and how it is spelt to this peer.

    :param name: of the transport URL; None: there is none, or it is a part of
        addresses instead
    :param prefixed: begin with RabbitMQ's spelling
    """

    def __init__(self, name: str | None, prefixed: bool = False) -> None:
        self.name = name
        self._prefix = PREFIXES[1 if prefixed else 0]
        self._known = False

    @property
    def hostname(self) -> str | None:
        """For the next Open frame; None: the name of the host."""
        return None if self.name is None else self._prefix + self.name

    def learn(self, profile: BusProfile) -> bool:
        """The peer has opened; True when it would have to be asked in another way."""
        self._known = True
        if self.name is None or profile.vhost_prefix == self._prefix:
            return False
        self._prefix = profile.vhost_prefix
        return True

    def refused(self) -> None:
        """The peer did not open: ask in the other way next time."""
        if not self._known:
            self._prefix = PREFIXES[1 - PREFIXES.index(self._prefix)]
        self._known = False
