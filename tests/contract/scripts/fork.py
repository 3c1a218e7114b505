# SPDX-License-Identifier: Apache-2.0

"""A process that forks: fork.py URL before|after|server

Prints one JSON object with what each process saw.
"""

import json
import os
import sys
import threading

import oslo_messaging
from oslo_config import cfg


class Endpoint:
    def pid(self, ctxt):
        return os.getpid()


def replies_to(transport):
    return transport._driver._client.context.reply_address


def calls(transport):
    client = oslo_messaging.get_rpc_client(
        transport, oslo_messaging.Target(topic="topic"), timeout=10
    )
    return {
        "answers": [client.call({}, "echo", value=f"{os.getpid()}-{n}") for n in range(5)]
        == [f"{os.getpid()}-{n}" for n in range(5)],
        "address": replies_to(transport),
    }


def in_child(work):
    """What ``work`` returns in a child of this process."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = json.loads(stream.read() or "null")
    os.waitpid(pid, 0)
    return said


def child(transport):
    inherited = os.listdir("/proc/self/fd")
    found = calls(transport)
    transport.cleanup()
    found["threads"] = sorted(t.name for t in threading.enumerate() if "amqp1" in t.name)
    found["descriptors"] = len(os.listdir("/proc/self/fd")) - len(inherited)
    return found


def main(url, when):
    conf = cfg.ConfigOpts()
    conf([])
    transport = oslo_messaging.get_rpc_transport(conf, url=url)
    seen = {}
    if when == "server":
        server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(topic="forked", server=f"{os.getpid()}"),
            [Endpoint()],
            executor="threading",
        )
        server.start()
        seen["child"] = in_child(lambda: child(transport))
        client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic="forked"), timeout=10
        )
        seen["served by the parent"] = client.call({}, "pid") == os.getpid()
        server.stop()
        server.wait()
    elif when == "after":
        seen["before"] = calls(transport)
        seen["child"] = in_child(lambda: child(transport))
        seen["parent"] = calls(transport)
    else:
        seen["child"] = in_child(lambda: child(transport))
        seen["parent"] = calls(transport)
    transport.cleanup()
    print(json.dumps(seen))


main(*sys.argv[1:])
