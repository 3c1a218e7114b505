# SPDX-License-Identifier: Apache-2.0

"""The first SASL connection of a process, without descriptors; called by test_descriptors."""

from __future__ import annotations

import json
import os
import resource
import sys

import oslo_messaging as om
from oslo_config import cfg

from amqp1_driver import options
from amqp1_driver.client import network

url = sys.argv[1]
conf = cfg.ConfigOpts()
conf([], project="descriptors", default_config_files=[])
options.register_opts(conf)
for name, value in json.loads(sys.argv[2]).items():
    conf.set_override(name, value, group="oslo_messaging_amqp")
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
transport = om.get_rpc_transport(conf, url=url)
client = om.get_rpc_client(transport, om.Target(topic="topic", server="server"), timeout=10)

taken: list[int] = []
errors: list[str] = []
connected, lost = network._Stream.connected, network.LoopNetwork.disconnect


def take_all(self: network._Stream, description: str) -> None:
    """The last descriptor was that of the socket."""
    if not errors:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
    connected(self, description)


def return_unprocessed(self: network.LoopNetwork) -> None:
    """The attempt has failed."""
    lost(self)
    while taken:
        os.close(taken.pop())
        errors[:] = ["failed"]


network._Stream.connected = take_all  # type: ignore[method-assign]
network.LoopNetwork.disconnect = return_unprocessed  # type: ignore[method-assign]
answer = client.call({}, "echo", value="answer")
transport.cleanup()
again = om.get_rpc_transport(conf, url=url)
client = om.get_rpc_client(again, om.Target(topic="topic", server="server"), timeout=10)
print(json.dumps([errors, answer, client.call({}, "echo", value="again")]))
again.cleanup()
