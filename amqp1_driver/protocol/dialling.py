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

"""Which host is dialled next, how it is asked, and where it sends us.

Keeps the state of failover, the spelling of the virtual host and the trail of redirects for
the logical connection.  Lives on the I/O thread.
"""

import logging
import random

from amqp1_driver.addressing.peer import Peer, choose
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy import failover
from amqp1_driver.policy.backoff import Backoff
from amqp1_driver.policy.redirect import Redirect, Trail
from amqp1_driver.protocol.vhost import VirtualHost

LOG = logging.getLogger(__name__)


class Dialling:
    """See the module.

    :param hosts: to choose from
    :param virtual_host: of the Open frame; None: the name of the host
    """

    def __init__(self, hosts: tuple[Host, ...], settings: Settings, virtual_host: str | None,
                 rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._virtual_host = VirtualHost(virtual_host, settings.addressing_mode == "rabbitmq")
        self._failover = failover.start(
            hosts, settings.host_selection, rng,
            turn=rng.randrange(len(hosts)) if hosts else 0,
            backoff=Backoff(settings.connection_retry_interval,
                            settings.connection_retry_backoff,
                            settings.connection_retry_interval_max))
        self._trail = Trail()
        self._again = False

    @property
    def current(self) -> Host:
        """The host that is in use or tried next."""
        return self._failover.current

    @property
    def virtual_host_name(self) -> str | None:
        """As the transport URL has it."""
        return self._virtual_host.name

    @property
    def virtual_host(self) -> str | None:
        """For the next Open frame; None: the name of the host."""
        return self._virtual_host.hostname

    def dial(self) -> Host:
        """Begin an attempt."""
        attempt = failover.next_attempt(self._failover, self._rng)
        self._failover = attempt.state
        LOG.debug("Connecting to %s", attempt.host)
        return attempt.host

    def opened(self, peer: Peer) -> bool:
        """The peer has opened; False when it has to be dialled again, and asked otherwise."""
        self._again = self._virtual_host.learn(choose(peer, self._settings.addressing_mode))
        return not self._again

    def not_opened(self) -> None:
        """The attempt has ended before the peer's Open frame."""
        self._virtual_host.refused()

    def succeeded(self) -> None:
        """The connection is usable."""
        self._failover = failover.succeeded(self._failover)

    def redirected(self, redirect: Redirect, now: float) -> str | None:
        """The peer sends us elsewhere: that is where the next attempt goes, at once.

        :returns: why not, None if so
        """
        target = redirect.target(self.current)
        reason = (redirect.refusal(self._settings.tls)
                  or self._trail.step(str(self.current), str(target), now))
        if reason is None:
            LOG.info("%s sends us to %s", self.current, target)
            self._failover = failover.redirected(self._failover, target)
            self._again = True
        return reason

    def lost(self, error: Exception, established: bool) -> tuple[float, bool]:
        """The physical connection is gone, or could not be made.

        :returns: seconds until the next attempt, and whether every host was tried in vain
        """
        if self._again:
            self._again = False
            return 0.0, False
        before = self._failover
        self._failover = (failover.lost if established else failover.failed)(before, error)
        attempt = failover.next_attempt(self._failover, self._rng)
        LOG.warning("%s %s: %s; trying %s in %.1f s",
                    "Lost connection to" if established else "Can't connect to",
                    before.current, error, attempt.host, attempt.delay)
        tried = not established and self._failover.failures % len(self._failover.hosts) == 0
        return attempt.delay, tried
