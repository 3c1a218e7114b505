# SPDX-License-Identifier: Apache-2.0

"""The driver's own client for jobs that read and write the bus without oslo.messaging.  Any thread.

The client handles URL, TLS, SASL, failover and options as the driver does, since it is the
driver's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.masking import given

if TYPE_CHECKING:
    from amqp1_driver.client.client import Client


def make_client(
    url: str, exchange: str | None = None, driver: Iterable[tuple[str, str]] = ()
) -> Client:
    """Return a client that is not started. This function reads no configuration file.

    :param url: transport URL, or ``env:NAME`` or ``file:PATH``, where the URL is stored; its query
        may set options of the driver
    :param exchange: exchange of notifications whose topic names none; None: oslo.messaging's
        default
    :param driver: names and values of the driver's options, as in a configuration file; they
        override the query of the URL
    :raises InvalidOption: an option is unknown or has a wrong value; the text names the option
    :raises ValueError: the URL is not a transport URL; the text does not repeat the URL, which may
        hold a password
    """
    # Imported late: some of Spark's processes import this module and never connect.
    import oslo_messaging
    from oslo_config import cfg

    from amqp1_driver import compat, options
    from amqp1_driver.client import credentials
    from amqp1_driver.client.client import Client

    conf = cfg.ConfigOpts()
    conf([], project="", default_config_files=[], default_config_dirs=[])
    url = given(url)
    if "://" not in url:
        # TransportURL.parse() would take the text for a path, and the client for localhost.
        raise ValueError("option 'url' is no transport URL: it has no scheme, as in amqp://")
    try:
        parsed = oslo_messaging.TransportURL.parse(conf, url)
    except (oslo_messaging.InvalidTransportURL, ValueError):
        raise ValueError(
            "option 'url' is no transport URL, as in amqp://user:password@host:5672/virtual-host"
        ) from None
    parsed.query.update(driver)
    settings = options.load(conf, parsed)
    compat.check_proton(settings.security.sasl_mechanisms)
    hosts = options.hosts(parsed, settings)
    credentials.check(settings, hosts)
    return Client(
        hosts,
        settings,
        options.virtual_host(parsed),
        exchange or options.default_exchange_for(conf),
        "pipeline",
    )


def node(address: str) -> Destination:
    """Return the destination of a node by its AMQP address, which stays as it is."""
    return Destination(Service.NODE, None, address)


def notifications(topic: str, priority: str, exchange: str | None = None) -> Destination:
    """Return the destination of the notifications of one topic and priority.

    oslo.messaging's drivers use the same name in ``listen_for_notifications``:
    ``topic.priority``.

    :param exchange: None: the exchange given to :func:`make_client`
    """
    return Destination(Service.NOTIFY, exchange, f"{topic}.{priority}")
