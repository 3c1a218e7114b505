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
import sys

import oslo_messaging
from oslo_config import cfg


class Calculator:
    def add(self, ctxt, a, b):
        return a + b

    def find(self, ctxt, key):
        raise LookupError(f"nothing is known of {key}")


url = sys.argv[1] if len(sys.argv) > 1 else "amqp://127.0.0.1:5672/"
transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
target = oslo_messaging.Target(topic="calculators", server="calculator-1")
server = oslo_messaging.get_rpc_server(
    transport, target, [Calculator()], executor="threading"
)
server.start()
server.wait()
