# SPDX-License-Identifier: Apache-2.0

"""Names that are likely to collide when they are joined carelessly."""

from hypothesis import strategies as st

from amqp1_driver import options
from amqp1_driver.addressing.base import AddressConfig, Destination, Service

WORDS = ("vhost", "rpc", "notify", "anycast", "unicast", "multicast", "all", "%3A", "%2F", "é")


def config(vhost=None, default_exchange=None, **changes):
    return AddressConfig.from_settings(options.default_settings(**changes), vhost, default_exchange)


def names(alphabet="ab:/%"):
    words = [word for word in WORDS if "%" in alphabet or "%" not in word]
    return st.text(alphabet, min_size=1, max_size=4) | st.sampled_from(words)


def destinations(name):
    return st.builds(
        Destination,
        st.sampled_from((Service.RPC, Service.NOTIFY)),
        name,
        name,
        st.none() | name,
        st.booleans(),
    )


def rpc(exchange, topic, server=None, fanout=False):
    return Destination(Service.RPC, exchange, topic, server, fanout)


def notify(exchange, topic):
    return Destination(Service.NOTIFY, exchange, topic)
