# SPDX-License-Identifier: Apache-2.0

# begin
import oslo_messaging
from oslo_config import cfg

from amqp1_driver.testing.fixture import BusFixture


def test_nobody_answers():
    with BusFixture("router") as bus:
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        transport = oslo_messaging.get_rpc_transport(conf, url=bus.url())
        client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic="nobody"), timeout=0.2
        )
        try:
            client.call({}, "ping")
        except oslo_messaging.MessagingTimeout:
            pass
        else:
            raise AssertionError("somebody answered")
        finally:
            transport.cleanup()
