# SPDX-License-Identifier: Apache-2.0

"""Bar: SASL GSSAPI with a real Kerberos KDC. Long form only: it downloads eleven packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bars.kerberos import Realm

# A peer on proton's own server side, which leaves SASL to Cyrus: prints its port, then who sent
# what. It takes one message.
_PEER = """
import sys
from proton.handlers import MessagingHandler
from proton.reactor import Container

class Peer(MessagingHandler):
    def on_start(self, event):
        container = event.container
        container.sasl_enabled, container.allowed_mechs = True, "GSSAPI"
        self.acceptor = container.listen("127.0.0.1:0")
        import socket
        fd = self.acceptor._selectable.fileno()
        print(socket.socket(fileno=__import__("os").dup(fd)).getsockname()[1], flush=True)

    def on_link_opening(self, event):
        link = event.link
        link.target.copy(link.remote_target)
        link.source.copy(link.remote_source)
        if link.remote_source.dynamic:
            link.source.address = "reply"

    def on_message(self, event):
        print(event.transport.user, event.link.target.address, flush=True)

Container(Peer()).run()
"""

# An application that sends one notification.
_CLIENT = """
import sys
import oslo_messaging as om
from oslo_config import cfg

conf = cfg.ConfigOpts()
conf([], default_config_files=[], default_config_dirs=[])
transport = om.get_notification_transport(conf, sys.argv[1])
notifier = om.Notifier(transport, "host", driver="messagingv2", topics=["audit"], retry=0)
try:
    transport._send_notification(om.Target(topic="audit.info"), {}, {"event_type": "test"},
                                 version=2.0, retry=0)
    print("sent")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
transport.cleanup()
"""


@pytest.fixture
def realm(long_form: bool, tmp_path: Path) -> Iterator[Realm]:
    with Realm(tmp_path) as made:
        yield made


@pytest.fixture
def peer(realm: Realm) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PEER], env=realm.environment, text=True, stdout=subprocess.PIPE
    )
    yield process
    process.kill()
    process.communicate()


def notify(realm: Realm, port: str) -> str:
    """What an application says that sends a notification to this peer."""
    url = (
        f"amqp://localhost:{port}/?sasl_mechanisms=GSSAPI&default_notify_timeout=5"
        "&addressing_mode=routable"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CLIENT, url],
        text=True,
        env=realm.environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


def test_a_ticket_opens_the_bus_and_no_ticket_is_an_error_that_says_so(
    realm: Realm, peer: subprocess.Popen[str]
) -> None:
    assert peer.stdout is not None
    port = peer.stdout.readline().strip()
    realm.log_in()
    assert notify(realm, port).startswith("sent\n")
    who, where = peer.stdout.readline().split()
    assert who == "user"  # of the default realm
    assert where.endswith("audit.info")
    realm.log_out()
    said = notify(realm, port)
    assert "MessageDeliveryFailure" in said
    assert f"localhost:{port}" in said
    assert "uthentication failed" in said
