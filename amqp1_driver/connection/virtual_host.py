# SPDX-License-Identifier: Apache-2.0

"""The name of the virtual host in the Open frame (``hostname``, 2.7.1); lives on the I/O thread.

RabbitMQ requires a prefix before the name, but only the peer's own Open frame shows that the peer
is RabbitMQ. A peer may also refuse to open because the prefix is missing. Therefore the driver
alternates between the two spellings until one has worked. Pure: no clock, no I/O.
"""

from amqp1_driver.addressing.profiles import RABBITMQ_VHOST_PREFIX, BusProfile

PREFIXES = ("", RABBITMQ_VHOST_PREFIX)


class VirtualHost:
    """A virtual host and its spelling for the current peer.

    :param name: the virtual host in the transport URL; None: there is none, or the driver makes it
        a part of addresses instead
    :param prefixed: whether to begin with RabbitMQ's spelling
    """

    def __init__(self, name: str | None, prefixed: bool = False) -> None:
        self.name = name
        self._prefix = PREFIXES[1 if prefixed else 0]
        self._known = False

    @property
    def hostname(self) -> str | None:
        """Return the ``hostname`` for the next Open frame; None: use the name of the host."""
        return None if self.name is None else self._prefix + self.name

    def learn(self, profile: BusProfile) -> bool:
        """Note that the peer has sent its Open frame, and use its spelling from now on.

        :returns: whether the last Open frame had the wrong spelling, so that the driver has to
            connect again
        """
        self._known = True
        if self.name is None or profile.vhost_prefix == self._prefix:
            return False
        self._prefix = profile.vhost_prefix
        return True

    def refused(self) -> None:
        """Use the other spelling next time, because the peer has sent no Open frame.

        The first refusal after a successful Open keeps the spelling.
        """
        if not self._known:
            self._prefix = PREFIXES[1 - PREFIXES.index(self._prefix)]
        self._known = False
