# SPDX-License-Identifier: Apache-2.0

# begin
import sys

import oslo_messaging
from oslo_config import cfg

url = sys.argv[1] if len(sys.argv) > 1 else "amqp://127.0.0.1:5672/"
transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
target = oslo_messaging.Target(topic="calculators")
client = oslo_messaging.get_rpc_client(transport, target, timeout=5)

print(client.call({}, "add", a=1, b=2))
try:
    client.call({}, "find", key="instance-42")
except LookupError as error:
    print(f"LookupError: {str(error).splitlines()[0]}")
try:
    client.prepare(topic="nobody", timeout=0.5).call({}, "add", a=1, b=2)
except oslo_messaging.MessagingTimeout as error:
    print(f"MessagingTimeout: {str(error).partition(' (')[0]}")
transport.cleanup()
