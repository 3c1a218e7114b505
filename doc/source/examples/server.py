# SPDX-License-Identifier: Apache-2.0

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
server = oslo_messaging.get_rpc_server(transport, target, [Calculator()], executor="threading")
server.start()
server.wait()
