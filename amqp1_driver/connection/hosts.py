# SPDX-License-Identifier: Apache-2.0

"""The choice of the next host, and the state behind it; on the I/O thread.

The state consists of failover, the spelling of the virtual host and the trail of redirects.
"""

import logging
import random

from amqp1_driver import exceptions
from amqp1_driver.addressing.peer import Peer, profile_for
from amqp1_driver.connection import diagnosis
from amqp1_driver.connection.virtual_host import VirtualHost
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy import failover
from amqp1_driver.policy.redirect import Destinations, Redirect, Trail
from amqp1_driver.policy.retry import Backoff

LOG = exceptions.logger(__name__)

_IN_CLEAR = (
    "SASL %s without TLS: the password goes to %s in clear, and anybody on the way can "
    "read it; use TLS, or refuse it by sasl_allow_insecure_mechs = false"
)
#: seconds after which a failure that goes on is a warning again
_REMINDER = 60.0


class Hosts:
    """The hosts of a logical connection, and the choice of one for each attempt to connect.

    :param hosts: the hosts of the transport URL, at least one
    :param virtual_host: the virtual host for the Open frame; None: the name of the host
    """

    def __init__(
        self,
        hosts: tuple[Host, ...],
        settings: Settings,
        virtual_host: str | None,
        rng: random.Random,
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._virtual_host = VirtualHost(
            virtual_host, settings.addressing.addressing_mode == "rabbitmq"
        )
        self._failover = failover.start(
            hosts,
            settings.connection.host_selection,
            rng,
            turn=rng.randrange(len(hosts)) if hosts else 0,
            backoff=Backoff(
                settings.connection.connection_retry_interval,
                settings.connection.connection_retry_backoff,
                settings.connection.connection_retry_interval_max,
            ),
        )
        self._destinations = Destinations(hosts, settings.connection.redirect_hosts, settings.tls)
        self._trail = Trail()
        self._again = False
        self._warned = False
        # of each host, its last failure that was a warning, and when
        self._logged: dict[str, tuple[str, float]] = {}

    @property
    def current(self) -> Host:
        """Return the host that is in use or tried next."""
        return self._failover.current

    @property
    def virtual_host_name(self) -> str | None:
        """Return the virtual host's name as in the transport URL, None if there is none."""
        return self._virtual_host.name

    @property
    def virtual_host(self) -> str | None:
        """Return the ``hostname`` for the next Open frame; None: use the name of the host."""
        return self._virtual_host.hostname

    def dial(self) -> Host:
        """Begin an attempt to connect, and return its host."""
        LOG.debug("Connecting to %s", self.current)
        return self.current

    def opened(self, peer: Peer) -> bool:
        """Note that the peer has sent its Open frame.

        :returns: False if the last Open frame had the wrong spelling of the virtual host, so that
            the driver has to connect again
        """
        self._again = self._virtual_host.learn(
            profile_for(peer, self._settings.addressing.addressing_mode)
        )
        return not self._again

    def not_opened(self) -> None:
        """Note that the attempt has ended before the peer's Open frame."""
        self._virtual_host.refused()

    def in_clear(self, mechanism: str) -> None:
        """Warn, once for each logical connection, that SASL sends the password without TLS.

        :param mechanism: name of the SASL mechanism
        """
        if not self._warned:
            self._warned = True
            LOG.warning(_IN_CLEAR, mechanism, self.current)

    def succeeded(self) -> None:
        """Note that the connection is usable."""
        self._failover = failover.succeeded(self._failover)
        self._logged.clear()

    def redirected(self, redirect: Redirect, now: float) -> str | None:
        """Direct the next attempt to the host that a redirect names, without a delay.

        :param now: seconds of the loop's clock
        :returns: why the driver does not follow the redirect; None if it does
        """
        named = redirect.target(self.current)
        target = self._destinations.admit(named)
        if target is None:
            place = f"{named} at {named.network}" if named.network else str(named)
            return f"{place} is not in the transport URL, and redirect_hosts does not permit it"
        reason = redirect.refusal(self._settings.tls) or self._trail.step(
            str(self.current), str(target), now
        )
        if reason is None:
            LOG.info("%s sends us to %s", self.current, target)
            self._failover = failover.redirected(self._failover, target)
            self._again = True
        return reason

    def lost(self, error: Exception, established: bool, now: float) -> tuple[float, bool]:
        """Choose the next host after a lost connection or a failed attempt.

        The log gets one warning for each failure of a host, and then one a minute while this
        failure goes on. The attempts in between are logged at INFO.

        :param established: whether the lost connection was usable
        :param now: seconds of the loop's clock
        :returns: seconds until the next attempt, and whether the attempts with all hosts failed
        """
        if self._again:
            self._again = False
            return 0.0, False
        before = self._failover
        self._failover = (failover.lost if established else failover.failed)(before)
        attempt = failover.next_attempt(self._failover, self._rng)
        host, following = str(before.current), str(attempt.host)
        reason = diagnosis.for_log(error, host)
        LOG.log(
            logging.WARNING if established or self._is_news(host, reason, now) else logging.INFO,
            "%s %s: %s; trying %s in %.1f s",
            "Lost connection to" if established else "Can't connect to",
            host,
            reason,
            "again" if following == host else following,
            attempt.delay,
        )
        tried = not established and self._failover.failures % len(self._failover.hosts) == 0
        return attempt.delay, tried

    def _is_news(self, host: str, reason: str, now: float) -> bool:
        """Return whether a failed attempt deserves a warning, and note that it has got one."""
        last, when = self._logged.get(host, ("", now))
        if last == reason and now - when < _REMINDER:
            return False
        self._logged[host] = reason, now
        return True
