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
