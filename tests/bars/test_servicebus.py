# SPDX-License-Identifier: Apache-2.0


"""Azure Service Bus: oslo.messaging over the embedded one, which checks every token.

By TLS and by WebSocket, with keys and with tokens of a provider; the bars for expiry and refusal.
"""

import base64
import hashlib
import hmac
import json
import logging
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
import trustme
from oslo_config import cfg

from amqp1_driver.bus import Bus
from amqp1_driver.bus.namespace import Namespace

PATIENCE = 20.0
KEY = "c2VjcmV0LWtleQ=="
SECRET = "jwt-secret"
ANY, ONE = "openstack--rpc--any--openstack--t", "openstack--rpc--one--openstack--t--s1"
ALL, NOTES = "openstack--rpc--all--openstack--t", "openstack--notify--openstack--n.info"
REPLY = "openstack--reply"


def namespace(**changes: Any) -> Namespace:
    fields: dict[str, Any] = {
        "queues": (ANY, ONE),
        "session_queues": (REPLY,),
        "topics": {ALL: ("s1",), NOTES: ("default", "audit")},
        "rules": {"rule": KEY},
        "jwt_secret": SECRET,
    }
    return Namespace(**{**fields, **changes})


class Cloud:
    """An embedded Service Bus and what an application needs of it."""

    def __init__(self, folder: Any) -> None:
        ca = trustme.CA()
        self.ca, self.cert = str(folder / "ca.pem"), str(folder / "cert.pem")
        ca.cert_pem.write_to_path(self.ca)
        ca.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(self.cert)
        self.bus: Bus | None = None
        self._ends: list[Callable[[], object]] = []

    def start(self, port: int = 0, **changes: Any) -> None:
        self.bus = Bus(
            "servicebus",
            port=port,
            tls_cert=self.cert,
            websocket_port=0,
            namespace=namespace(**changes),
        )
        self.bus.start()

    def transport(
        self,
        *,
        websocket: bool = False,
        user: str = f"rule:{KEY}@",
        notify: bool = False,
        **options: Any,
    ) -> Any:
        assert self.bus is not None
        port = self.bus.websocket_port if websocket else self.bus.port
        options = {"addressing_mode": "servicebus", "ssl_ca_file": self.ca, **options}
        if websocket:
            options["transport"] = "websocket"
        query = "&".join(f"{name}={value}" for name, value in options.items())
        conf = cfg.ConfigOpts()
        conf([])
        make = (
            oslo_messaging.get_notification_transport
            if notify
            else oslo_messaging.get_rpc_transport
        )
        transport = make(conf, f"amqp://{user}localhost:{port}/?{query}")
        self._ends.append(transport.cleanup)
        return transport

    def serve(self, transport: Any, endpoint: Any, threads: int = 64) -> None:
        server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(topic="t", server="s1"),
            [endpoint],
            executor="threading",
        )
        transport.conf.set_override("executor_thread_pool_size", threads)
        server.start()
        self._ends.insert(0, server.wait)
        self._ends.insert(0, server.stop)

    def client(self, transport: Any = None, timeout: float = PATIENCE) -> Any:
        return oslo_messaging.get_rpc_client(
            transport or self.transport(), oslo_messaging.Target(topic="t"), timeout=timeout
        )

    def close(self) -> None:
        for end in self._ends:
            end()
        if self.bus is not None:
            self.bus.stop()


@pytest.fixture
def cloud(tmp_path: Any) -> Iterator[Cloud]:
    found = Cloud(tmp_path)
    yield found
    found.close()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "amqp1_driver")
    return caplog


class Endpoint:
    def __init__(self) -> None:
        self.notes: queue.Queue[Any] = queue.Queue()

    def add(self, ctxt: Any, one: int, two: int) -> int:
        return one + two

    def note(self, ctxt: Any, text: str) -> None:
        self.notes.put(text)

    def info(self, ctxt: Any, publisher: str, kind: str, payload: Any, metadata: Any) -> None:
        self.notes.put(payload)


# -- what works ---------------------------------------------------------------------------------


@pytest.mark.parametrize("websocket", [False, True], ids=["tls", "websocket"])
def test_rpc(cloud: Cloud, log: pytest.LogCaptureFixture, websocket: bool) -> None:
    cloud.start()
    endpoint = Endpoint()
    cloud.serve(cloud.transport(websocket=websocket), endpoint)
    client = cloud.client(cloud.transport(websocket=websocket))
    assert client.call({}, "add", one=1, two=2) == 3
    assert client.prepare(server="s1").call({}, "add", one=3, two=4) == 7
    client.cast({}, "note", text="any")
    client.prepare(server="s1").cast({}, "note", text="one")
    client.prepare(fanout=True).cast({}, "note", text="all")
    assert {endpoint.notes.get(timeout=PATIENCE) for _ in range(3)} == {"any", "one", "all"}
    large = "x" * 200000
    assert client.call({}, "add", one=large, two="y") == large + "y"
    assert log.records == []


def test_notifications_and_pools(cloud: Cloud) -> None:
    cloud.start()
    listeners = []
    for pool in (None, "audit"):
        endpoint = Endpoint()
        listener = oslo_messaging.get_notification_listener(
            cloud.transport(notify=True),
            [oslo_messaging.Target(topic="n")],
            [endpoint],
            executor="threading",
            pool=pool,
        )
        listener.start()
        listeners.append((listener, endpoint))
    notifier = oslo_messaging.Notifier(
        cloud.transport(notify=True), "me", driver="messagingv2", topics=["n"]
    )
    for number in range(5):
        notifier.info({}, "event", number)
    for listener, endpoint in listeners:
        assert [endpoint.notes.get(timeout=PATIENCE) for _ in range(5)] == [0, 1, 2, 3, 4]
        listener.stop()
        listener.wait()


def test_what_is_requeued_again_and_again_ends_as_a_dead_letter(cloud: Cloud) -> None:
    cloud.start(max_delivery_count=3)
    tried: queue.Queue[Any] = queue.Queue()

    class Never:
        def info(self, ctxt: Any, publisher: str, kind: str, payload: Any, metadata: Any) -> Any:
            tried.put(payload)
            return oslo_messaging.NotificationResult.REQUEUE

    listener = oslo_messaging.get_notification_listener(
        cloud.transport(notify=True),
        [oslo_messaging.Target(topic="n")],
        [Never()],
        executor="threading",
        allow_requeue=True,
    )
    listener.start()
    notifier = oslo_messaging.Notifier(
        cloud.transport(notify=True), "me", driver="messagingv2", topics=["n"]
    )
    notifier.info({}, "event", "poison")
    assert [tried.get(timeout=PATIENCE) for _ in range(3)] == ["poison"] * 3
    assert cloud.bus is not None
    dead = f"{NOTES}/Subscriptions/default/$DeadLetterQueue"
    cloud.bus.wait_until(lambda bus: bus.peek(dead) == 1, PATIENCE)
    assert tried.empty()
    listener.stop()
    listener.wait()


def test_plain_with_the_key(cloud: Cloud) -> None:
    cloud.start()
    cloud.serve(cloud.transport(sasl_mechanisms="PLAIN"), Endpoint())
    client = cloud.client(cloud.transport(sasl_mechanisms="PLAIN"))
    assert client.call({}, "add", one=1, two=2) == 3


def test_each_process_of_a_server_has_every_fanout(cloud: Cloud, log: Any) -> None:
    cloud.start(topics={ALL: ("s1", "s1--2", "s1--3")})
    endpoints = [Endpoint() for _ in range(3)]
    for endpoint in endpoints:  # a transport each, as processes have
        cloud.serve(cloud.transport(servicebus_workers=3), endpoint)
    cloud.client().prepare(fanout=True).cast({}, "note", text="all")
    assert [endpoint.notes.get(timeout=PATIENCE) for endpoint in endpoints] == ["all"] * 3
    cloud.serve(cloud.transport(servicebus_workers=3), Endpoint())
    assert "3 processes of this machine listen on t.s1 already" in log.text


asked: list[str] = []


def make_token(resource: str) -> tuple[str, str, float]:
    """A JSON Web Token (RFC 7519) with HS256, as the option token_provider has it."""
    asked.append(f"{threading.current_thread().name} {resource}")
    expires = int(time.time()) + 60

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = (
        part({"alg": "HS256", "typ": "JWT"})
        + b"."
        + part({"aud": "https://servicebus.azure.net", "exp": expires})
    )
    digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    signature = base64.urlsafe_b64encode(digest).rstrip(b"=")
    return (signed + b"." + signature).decode(), "jwt", expires


PROVIDER = f"{__name__}:make_token"


def test_tokens_of_a_provider(cloud: Cloud) -> None:
    asked.clear()
    cloud.start()
    cloud.serve(cloud.transport(user="", token_provider=PROVIDER), Endpoint())
    client = cloud.client(cloud.transport(user="", token_provider=PROVIDER))
    assert client.call({}, "add", one=1, two=2) == 3
    assert {entry.split()[1] for entry in asked} == {
        f"sb://localhost/{name}" for name in (ANY, ONE, REPLY, f"{ALL}/Subscriptions/s1")
    }
    assert not any(entry.startswith("amqp1-io") for entry in asked)


def broken_provider(resource: str) -> tuple[str, str, float]:
    raise OSError("the identity service is away")


def test_a_provider_that_fails(cloud: Cloud) -> None:
    cloud.start()
    transport = cloud.transport(user="", token_provider=f"{__name__}:broken_provider")
    before = time.monotonic()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="identity service is away"):
        cloud.client(transport).call({}, "add", one=1, two=2)
    assert time.monotonic() - before < 2.0


def test_the_bus_restarts(cloud: Cloud) -> None:
    cloud.start()
    assert cloud.bus is not None
    port = cloud.bus.port
    cloud.serve(cloud.transport(connection_retry_interval=0.1), Endpoint())
    client = cloud.client(cloud.transport(connection_retry_interval=0.1))
    assert client.call({}, "add", one=1, two=2) == 3
    cloud.bus.stop()
    cloud.start(port)
    assert client.call({}, "add", one=3, two=4) == 7


class Proxy(socketserver.ThreadingTCPServer):
    """An HTTP proxy with the method CONNECT, for those who know the password."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.targets: list[str] = []
        self.url = f"http://us%2565r:p%2540ss@127.0.0.1:{self.server_address[1]}"


class Tunnel(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.request.recv(1)
        if b"Basic " + base64.b64encode(b"user:p@ss") not in head:
            self.request.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        target = head.split()[1].decode()
        self.server.targets.append(target)
        with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2]))) as behind:
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(behind, self.request), daemon=True)
            back.start()
            self._copy(self.request, behind)
            back.join(PATIENCE)

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join(PATIENCE)


@pytest.mark.parametrize("websocket", [False, True], ids=["tls", "websocket"])
def test_through_a_proxy(cloud: Cloud, proxy: Proxy, websocket: bool) -> None:
    cloud.start()
    assert cloud.bus is not None
    cloud.serve(cloud.transport(websocket=websocket), Endpoint())
    client = cloud.client(cloud.transport(websocket=websocket, proxy=proxy.url))
    assert client.call({}, "add", one=1, two=2) == 3
    port = cloud.bus.websocket_port if websocket else cloud.bus.port
    assert proxy.targets == [f"localhost:{port}"]


def test_a_proxy_that_refuses(cloud: Cloud, proxy: Proxy) -> None:
    cloud.start()
    port = proxy.server_address[1]
    client = cloud.client(cloud.transport(proxy=f"http://127.0.0.1:{port}"), timeout=1.0)
    with pytest.raises(
        oslo_messaging.MessagingTimeout,
        match=f"proxy 127.0.0.1:{port} refuses: HTTP 407 Proxy Authentication",
    ):
        client.call({}, "add", one=1, two=2)


# -- bars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("websocket", [False, True], ids=["tls", "websocket"])
def test_tokens_that_expire_under_traffic_lose_nothing(
    cloud: Cloud, log: pytest.LogCaptureFixture, websocket: bool, long_form: bool
) -> None:
    life, seconds = (5, 30.0) if long_form else (2, 5.0)
    cloud.start(token_grace=2.0)
    endpoint = Endpoint()
    options = {"websocket": websocket, "token_life": life}
    cloud.serve(cloud.transport(**options), endpoint)
    client = cloud.client(cloud.transport(**options))
    until, sent, longest = time.monotonic() + seconds, 0, 0.0
    while time.monotonic() < until:
        before = time.monotonic()
        assert client.call({}, "add", one=sent, two=1) == sent + 1
        client.prepare(server="s1").cast({}, "note", text=sent)
        client.prepare(fanout=True).cast({}, "note", text=-sent - 1)
        longest = max(longest, time.monotonic() - before)
        sent += 1
    got = {endpoint.notes.get(timeout=PATIENCE) for _ in range(2 * sent)}
    assert got == set(range(-sent, sent))
    assert endpoint.notes.empty()
    assert log.records == []  # no link was lost, no renewal failed
    assert longest < 1.0, "traffic paused for a renewal"


def wrong(cloud: Cloud, **options: Any) -> Any:
    return cloud.transport(user="rule:d3Jvbmc=@", **options)


@pytest.mark.parametrize("call", [True, False], ids=["call", "cast"])
def test_a_wrong_key_is_refused_within_two_seconds_with_the_reason(
    cloud: Cloud, call: bool
) -> None:
    cloud.start()
    client = cloud.client(wrong(cloud))
    before = time.monotonic()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        (client.call if call else client.cast)({}, "add", one=1, two=2)
    assert time.monotonic() - before < 2.0
    assert cloud.bus is not None
    text = str(caught.value)
    entity = f"{REPLY} (with sessions)" if call else ANY
    assert f"token for queue {entity}: refused with status 401" in text
    assert f"host=localhost:{cloud.bus.port}" in text
    assert "description=" in text
    assert "d3Jvbmc=" not in text


def test_a_listener_with_a_wrong_key_is_told_within_two_seconds(cloud: Cloud) -> None:
    cloud.start()
    server = oslo_messaging.get_rpc_server(
        wrong(cloud),
        oslo_messaging.Target(topic="t", server="s1"),
        [Endpoint()],
        executor="threading",
    )
    before = time.monotonic()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="refused with status 401"):
        server.start()
    assert time.monotonic() - before < 2.0


def test_a_wrong_key_with_plain(cloud: Cloud) -> None:
    cloud.start()
    client = cloud.client(wrong(cloud, sasl_mechanisms="PLAIN"), timeout=1.5)
    with pytest.raises(
        (oslo_messaging.MessageDeliveryFailure, oslo_messaging.MessagingTimeout),
        match="authentication failed",
    ):
        client.call({}, "add", one=1, two=2)


# -- entities that are missing ------------------------------------------------------------------


def test_a_sender_names_the_missing_entity(cloud: Cloud) -> None:
    cloud.start(queues=())
    with pytest.raises(
        oslo_messaging.MessageDeliveryFailure,
        match=f"entities are missing on Azure Service Bus: queue {ANY} ",
    ):
        cloud.client().cast({}, "note", text="x")


def test_a_call_names_all_that_it_needs(cloud: Cloud) -> None:
    cloud.start(session_queues=())
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        cloud.client().call({}, "add", one=1, two=2)
    assert (
        f"entities are missing on Azure Service Bus: queue {REPLY} (with sessions) "
        f"(also needed: queue {ANY})"
    ) in str(caught.value)


def test_a_listener_names_all_missing_entities(cloud: Cloud) -> None:
    cloud.start(queues=(), topics={})
    server = oslo_messaging.get_rpc_server(
        cloud.transport(),
        oslo_messaging.Target(topic="t", server="s1"),
        [Endpoint()],
        executor="threading",
    )
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        server.start()
    assert (
        f"entities are missing on Azure Service Bus: queue {ONE}, queue {ANY}, "
        f"subscription {ALL}/Subscriptions/s1"
    ) in str(caught.value)


# -- locks --------------------------------------------------------------------------------------


def test_what_waits_for_a_busy_server_is_not_locked(
    cloud: Cloud, log: pytest.LogCaptureFixture
) -> None:
    """Ten casts of a fifth of a second each, one at a time, under locks of one second."""
    cloud.start(lock_duration=1.0)
    done: queue.Queue[int] = queue.Queue()

    class Slow:
        def work(self, ctxt: Any, number: int) -> None:
            threading.Event().wait(0.2)
            done.put(number)

    cloud.serve(cloud.transport(servicebus_credit=2), Slow(), threads=1)
    client = cloud.client()
    for number in range(10):
        client.cast({}, "work", number=number)
    assert [done.get(timeout=PATIENCE) for _ in range(10)] == list(range(10))
    assert done.empty()
    assert log.records == []
