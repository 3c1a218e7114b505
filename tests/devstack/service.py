# SPDX-License-Identifier: Apache-2.0

"""A service in one process: service.py FILE prints which driver it got and what a call returns."""

import inspect
import sys

import oslo_messaging
from oslo_config import cfg


class Endpoint:
    """RPC methods."""

    def add(self, _context, one, two):
        return one + two


conf = cfg.ConfigOpts()
conf(["--config-file", sys.argv[1]], project="nova")
transport = oslo_messaging.get_rpc_transport(conf)
target = oslo_messaging.Target(topic="compute", server="node1")
server = oslo_messaging.get_rpc_server(transport, target, [Endpoint()], executor="threading")
server.start()
anywhere = oslo_messaging.Target(topic="compute")
client = oslo_messaging.get_rpc_client(transport, anywhere, timeout=20)
print(inspect.getfile(type(transport._driver)))
print(client.call({}, "add", one=1, two=2))
server.stop()
server.wait()
transport.cleanup()
