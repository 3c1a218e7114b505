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

"""The driver's own client for jobs that read and write the bus without oslo.messaging.

URL, TLS, SASL, failover and options are the driver's, because the client is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp1_driver.addressing.base import Destination, Service

if TYPE_CHECKING:
    from amqp1_driver.client import Client


def make_client(url: str, exchange: str | None = None,
                driver: Iterable[tuple[str, str]] = ()) -> Client:
    """A client that is not started; no configuration file is read.

    :param url: transport URL; options in its query count as the driver's
    :param exchange: of notifications whose topics name none; None: oslo.messaging's default
    :param driver: options of the driver by name, as in a configuration file; they win
    :raises InvalidOption: an option, named in the text, is unknown or has a wrong value
    :raises ValueError: the URL is none; it is not repeated, for it may hold a password
    """
    # late: Spark's processes import this also where no connection is made
    import oslo_messaging
    from oslo_config import cfg

    from amqp1_driver import compat, credentials, options
    from amqp1_driver.client import Client

    conf = cfg.ConfigOpts()
    conf([], project="", default_config_files=[], default_config_dirs=[])
    if "://" not in url:
        # it would be read as a host's path, and localhost be asked
        raise ValueError("option 'url' is no transport URL: it has no scheme, as in amqp://")
    try:
        parsed = oslo_messaging.TransportURL.parse(conf, url)
    except (oslo_messaging.InvalidTransportURL, ValueError):
        raise ValueError("option 'url' is no transport URL, as in "
                         "amqp://user:password@host:5672/virtual-host") from None
    parsed.query.update(driver)
    settings = options.load(conf, parsed)
    compat.check_proton(settings.sasl_mechanisms)
    hosts = options.hosts(parsed, settings)
    credentials.check(settings, hosts)
    return Client(hosts, settings, options.virtual_host(parsed),
                  exchange or options.default_exchange_for(conf))


def node(address: str) -> Destination:
    """A node by its AMQP address, which is used as it stands."""
    return Destination(Service.NODE, None, address)


def notifications(topic: str, priority: str, exchange: str | None = None) -> Destination:
    """Notifications as ``listen_for_notifications`` of oslo.messaging's drivers names them."""
    return Destination(Service.NOTIFY, exchange, f"{topic}.{priority}")
