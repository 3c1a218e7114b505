# SPDX-License-Identifier: Apache-2.0

"""The embedded Service Bus and claims: tokens, ``$cbs``, who may do what and for how long.

Tokens were signed with OpenSSL; it is 2023-11-14T22:13:20Z (1700000000) when a test begins.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from proton import Message, int32

from amqp1_driver.bus import Bus
from amqp1_driver.bus.namespace import Namespace, parse_rule, parse_topic
from amqp1_driver.bus.sas import BadToken, Resource, Rule, check, resource
from amqp1_driver.bus.timers import Timers

from .memory import Client, MemoryBus, Receiving, Sending, is_open

KEY, WRONG_KEY = "c2VjcmV0", "d3Jvbmc="
SAS = "servicebus.windows.net:sastoken"
QUEUE = "sb://ns.example/q"
#: Of the resource sb://ns.example/q and the rule "all", until 22:13:25, 22:13:40 and 23:13:20.
FIVE = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=1V61TwMRiQ97ab1rYEB7SEAniC1TE1zEvEd2OqE7P7w%3D&se=1700000005&skn=all"
)
TWENTY = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=bNfZDaQJRCcjjzJRjBFh15u%2FKaGDUBlQNkfaRHbyPno%3D&se=1700000020&skn=all"
)
HOUR = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=OMp0WZdQa0lZhCIGLOgs2KCeQS3rThxAHr9KvIRIuW4%3D&se=1700003600&skn=all"
)
#: Of the whole namespace.
EVERYTHING = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example"
    "&sig=ATuAmNlWEUPKTW3FGPs0AvP6jR%2FgJvIQ6PZI46CDl0M%3D&se=1700003600&skn=all"
)
#: With the rule "reader", which may only listen.
LISTEN = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=pL3q7OE3y9UcO%2BWV2G6Sjhb3Pfb3AbWKGjKmkj%2FwN4k%3D&se=1700003600&skn=reader"
)
FORGED = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=CdCmxFO6Xc4X0NZgeZTxx1wk2M1WBpXD0uHjQ5aw57A%3D&se=1700003600&skn=all"
)
EXPIRED = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.example%2Fq"
    "&sig=XSZzmltt3%2BVrLrHwNOdpPb4HWuF5OBKG1GGjZH9lyTk%3D&se=1699999999&skn=all"
)
_CLAIMS = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    "eyJhdWQiOiJodHRwczovL3NlcnZpY2VidXMuYXp1cmUubmV0IiwiZXhwIjoxNzAwMDAzNjAwfQ."
)
JWT = _CLAIMS + "6dn4CgTNB3GMN5zXFQ4aoR-6lg2UGuDkmSBRTRdAinQ"
FORGED_JWT = _CLAIMS + "K7lEFNOl-AbEEPS3F0GSZbMl2VR4mD_eYj8Kf_VrtAU"
# printf %s "$FIELDS" | openssl dgst -sha256 -hmac jwt-key -binary | base64
_FIELDS = (
    "Issuer=test&ExpiresOn=1700003600&Audience=sb%3a%2f%2fns.example%2fq"
    "&net.windows.servicebus.action=Listen%2cSend"
)
SWT = _FIELDS + "&HMACSHA256=C2oHQDltq7COsxbNQKpMEpViPwLcudUiFidyr%2BH4B%2BM%3D"
FORGED_SWT = _FIELDS + "&HMACSHA256=iL563v3Nr2MgOYpq6W00z31jh9aqcRX8g6Umv5bdans%3D"
RULES = {"all": KEY, "reader": Rule("bGlzdGVu", frozenset({"Listen"}))}
NAMESPACE = Namespace(
    queues=("q", "other"), topics={"t": ("s",)}, rules=RULES, jwt_secret="jwt-key"
)


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus("servicebus", namespace=NAMESPACE)


class Claimant:
    """A client with a pair of links to ``$cbs``."""

    def __init__(self, bus: MemoryBus, credit: int = 10) -> None:
        self.client: Client = bus.client()
        self.requests: Sending = self.client.sender("$cbs")
        self.replies: Receiving = self.client.receiver("$cbs", credit)

    def request(self, body: Any, properties: dict[str, Any], **fields: Any) -> None:
        message = Message(body=body, id="request-1", **fields)
        message.properties = properties
        self.requests.send(message)

    def put(self, token: Any, name: str = QUEUE, kind: str = SAS) -> tuple[int, str]:
        """Status and description of the reply."""
        self.request(token, {"operation": "put-token", "type": kind, "name": name})
        reply = self.replies.accept()
        assert reply.correlation_id == "request-1"
        status = reply.properties["status-code"]
        assert isinstance(status, int32)
        return int(status), str(reply.properties["status-description"])


def refusal(link: Any) -> tuple[str, str]:
    """Condition and description with which an attach was answered."""
    condition = link.link.remote_condition
    return condition.name, condition.description


# -- tokens ------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "sb://NS.example/Q",
        "amqps://ns.example:5671/q/",
        "https://ns.example/q",
        "amqp://ns.example/%71",
    ],
)
def test_a_resource_is_a_host_and_a_path_in_small_letters(uri: str) -> None:
    assert resource(uri) == Resource("ns.example", "q")


def test_a_mere_path_is_that_of_any_host() -> None:
    assert resource("/T/Subscriptions/S") == Resource("", "t/subscriptions/s")


@pytest.mark.parametrize(
    "scope, wanted, covered",
    [
        ("sb://ns", "sb://ns/q", True),
        ("sb://ns/t", "sb://ns/t/subscriptions/s", True),
        ("sb://ns/t", "amqp://ns/t", True),
        ("sb://ns/t", "sb://ns/topic", False),
        ("sb://ns/t/subscriptions/s", "sb://ns/t", False),
        ("sb://ns/t", "sb://other/t", False),
    ],
)
def test_a_token_covers_what_is_below_its_resource(scope: str, wanted: str, covered: bool) -> None:
    assert resource(scope).covers(resource(wanted)) is covered


def test_a_good_signature_grants_the_rights_of_its_rule() -> None:
    rules = NAMESPACE.known_rules
    grant = check(LISTEN, rules, None, 1700000000.0)
    assert grant.rights == {"Listen"}
    assert grant.scope == Resource("ns.example", "q")
    assert grant.expires == 1700003600.0


@pytest.mark.parametrize(
    "text, problem",
    [
        (FORGED, "InvalidSignature: The token"),
        (EXPIRED, "ExpiredToken: The token is expired."),
        (HOUR.replace("skn=all", "skn=none"), "InvalidSignature: There is no rule 'none'"),
        (HOUR.replace("%2Fq", "%2Fp"), "InvalidSignature: The token"),
        (HOUR.replace("1700003600", "1700003601"), "InvalidSignature: The token"),
        (HOUR.replace("&se=1700003600", ""), "MalformedToken"),
        (HOUR.replace("se=1700003600", "se=soon"), "MalformedToken"),
        (HOUR.replace("sig=O", "sig=*"), "MalformedToken"),
        (HOUR.replace("se=1700003600", "se=1" + 400 * "0"), "MalformedToken"),
        ("SharedAccessSignature ", "MalformedToken"),
        (FORGED_JWT, "InvalidSignature: The token"),
        (JWT.replace("eyJhbGci", "eyJhbGcj"), "MalformedToken"),
        (FORGED_SWT, "InvalidSignature: The token"),
        (SWT.replace("Listen", "Manage"), "InvalidSignature: The token"),
        (SWT.replace("ExpiresOn", "Expires"), "MalformedToken"),
        ("a.b.c", "MalformedToken"),
        ("", "MalformedToken"),
    ],
)
def test_a_bad_token_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(BadToken, match=problem) as raised:
        check(text, NAMESPACE.known_rules, "jwt-key", 1700000000.0)
    assert raised.value.status == 401


def test_a_json_web_token_needs_the_secret() -> None:
    assert check(JWT, {}, "jwt-key", 1700000000.0).expires == 1700003600.0
    with pytest.raises(BadToken, match="InvalidToken"):
        check(JWT, {}, None, 1700000000.0)
    with pytest.raises(BadToken, match="ExpiredToken"):
        check(JWT, {}, "jwt-key", 1700003600.0)


def test_a_simple_web_token_grants_the_rights_it_names() -> None:
    grant = check(SWT, {}, "jwt-key", 1700000000.0)
    assert grant.rights == {"Listen", "Send"}
    assert grant.scope == Resource("ns.example", "q")
    assert grant.expires == 1700003600.0
    with pytest.raises(BadToken, match="InvalidToken"):
        check(SWT, {}, None, 1700000000.0)


# -- $cbs --------------------------------------------------------------------


def test_without_a_token_links_are_refused(bus: MemoryBus) -> None:
    client = bus.client()
    for link, right in ((client.sender("q"), "Send"), (client.receiver("q"), "Listen")):
        condition, description = refusal(link)
        assert condition == "amqp:unauthorized-access"
        assert description.startswith(
            f"Unauthorized access. '{right}' claim(s) are required to perform this operation. "
            "Resource: 'q'. TrackingId:"
        )


@pytest.mark.parametrize(
    "token, kind",
    [
        (HOUR, SAS),
        (JWT, "jwt"),
        (JWT, "amqp:jwt"),
        (SWT, "amqp:swt"),
        (HOUR, "jwt"),  # as Microsoft's SDK for Python has it
    ],
)
def test_a_token_opens_the_entity(bus: MemoryBus, token: str, kind: str) -> None:
    claimant = Claimant(bus)
    assert claimant.put(token, kind=kind) == (202, "Accepted")
    sender = claimant.client.sender("amqps://ns.example/Q")
    receiver = claimant.client.receiver("q")
    sender.send("hello")
    assert receiver.bodies == ["hello"]


def test_a_token_counts_for_its_connection_and_entity_only(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.put(HOUR)
    assert refusal(claimant.client.sender("other"))[0] == "amqp:unauthorized-access"
    assert refusal(bus.client().sender("q"))[0] == "amqp:unauthorized-access"


def test_a_token_of_the_namespace_serves_for_one_entity_or_for_all(bus: MemoryBus) -> None:
    one = Claimant(bus)
    assert one.put(EVERYTHING, "sb://ns.example/t")[0] == 202
    assert is_open(one.client.sender("t").link)
    assert is_open(one.client.receiver("t/subscriptions/s").link)
    assert refusal(one.client.sender("q"))[0] == "amqp:unauthorized-access"
    every = Claimant(bus)
    assert every.put(EVERYTHING, "sb://ns.example/")[0] == 202
    assert is_open(every.client.sender("q").link)


def test_a_rule_that_may_listen_may_not_send(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    assert claimant.put(LISTEN)[0] == 202
    assert is_open(claimant.client.receiver("q").link)
    assert "'Send' claim(s)" in refusal(claimant.client.sender("q"))[1]


@pytest.mark.parametrize(
    "token, name, kind, status, problem",
    [
        (FORGED, QUEUE, SAS, 401, "InvalidSignature: "),
        (EXPIRED, QUEUE, SAS, 401, "ExpiredToken: "),
        (HOUR, "sb://ns.example/other", SAS, 401, "InvalidAudience: "),
        (HOUR, "sb://elsewhere/q", SAS, 401, "InvalidAudience: "),
        (
            EVERYTHING,
            "sb://ns.example/x",
            SAS,
            404,
            "The messaging entity 'sb://ns.example/x' could ",
        ),
        (HOUR, QUEUE, "kerberos", 400, "BadRequest: unknown type of token 'kerberos'"),
        (HOUR, "", SAS, 400, "BadRequest: the application property 'name' is missing"),
        (b"token", QUEUE, SAS, 400, "BadRequest: the token must be an amqp-value string"),
        (None, QUEUE, SAS, 400, "BadRequest: the token must be an amqp-value string"),
    ],
)
def test_a_refused_token_is_answered_with_the_reason(
    bus: MemoryBus, token: Any, name: str, kind: str, status: int, problem: str
) -> None:
    claimant = Claimant(bus)
    told, description = claimant.put(token, name, kind)
    assert told == status
    assert description.startswith(problem)
    assert "TrackingId:" in description
    assert refusal(claimant.client.sender("q"))[0] == "amqp:unauthorized-access"


def test_other_operations_are_refused(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.request("x", {"operation": "delete-token"})
    reply = claimant.replies.accept()
    assert reply.properties["status-code"] == 400
    claimant.request("x", {})
    assert claimant.replies.accept().properties["status-code"] == 400


def test_the_reply_goes_to_the_link_that_the_request_names(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    link = claimant.client.session.receiver("named")
    link.source.address, link.target.address = "$cbs", "my-replies"
    named = claimant.client._receiving["named"] = Receiving(claimant.client, link)
    link.flow(1)
    claimant.client._open(link, {})
    claimant.request("x", {}, reply_to="my-replies")
    assert len(named.arrived) == 1
    assert claimant.replies.arrived == []


def test_a_reply_waits_for_credit(bus: MemoryBus) -> None:
    claimant = Claimant(bus, credit=0)
    claimant.request(HOUR, {"operation": "put-token", "type": SAS, "name": QUEUE})
    assert claimant.replies.arrived == []
    assert is_open(claimant.client.sender("q").link)
    claimant.replies.flow(1)
    assert claimant.replies.accept().properties["status-code"] == 202


def test_without_a_link_for_replies_the_token_is_put_all_the_same(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.replies.close()
    claimant.request(HOUR, {"operation": "put-token", "type": SAS, "name": QUEUE})
    assert is_open(claimant.client.sender("q").link)


# -- time --------------------------------------------------------------------


def test_when_a_token_expires_the_links_of_its_entity_are_dropped(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.put(FIVE)
    claimant.put(EVERYTHING, "sb://ns.example/other")
    dropped = (claimant.client.sender("q"), claimant.client.receiver("q"))
    kept = claimant.client.sender("other")
    bus.advance(4.9)
    assert all(is_open(x.link) for x in (*dropped, kept))
    bus.advance(0.1)
    for link, right in zip(dropped, ("Send", "Listen"), strict=True):
        condition, description = refusal(link)
        assert condition == "amqp:unauthorized-access"
        assert f"'{right}' claim(s) are required" in description
    assert is_open(kept.link)
    assert is_open(claimant.requests.link)
    assert refusal(claimant.client.sender("q"))[0] == "amqp:unauthorized-access"


def test_a_token_that_was_renewed_in_time_keeps_the_links(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.put(FIVE)
    sender = claimant.client.sender("q")
    bus.advance(4)
    assert claimant.put(TWENTY)[0] == 202
    bus.advance(15.9)
    assert is_open(sender.link)
    bus.advance(0.1)
    assert refusal(sender)[0] == "amqp:unauthorized-access"


def test_the_condition_of_an_expired_token_can_be_chosen() -> None:
    namespace = Namespace(queues=("q",), rules=RULES, expired_condition="amqp:link:detach-forced")
    bus = MemoryBus("servicebus", namespace=namespace)
    claimant = Claimant(bus)
    claimant.put(FIVE)
    sender = claimant.client.sender("q")
    bus.advance(5)
    assert refusal(sender)[0] == "amqp:link:detach-forced"


def test_a_connection_without_a_token_is_closed_after_the_grace(bus: MemoryBus) -> None:
    idle, refused = bus.client(), Claimant(bus)
    refused.put(FORGED)
    good = Claimant(bus)
    good.put(HOUR)
    bus.advance(19.9)
    assert is_open(idle.connection)
    bus.advance(0.1)
    for client in (idle, refused.client):
        assert client.connection.remote_condition.name == "amqp:unauthorized-access"
        assert "No token was put within 20 seconds" in (
            client.connection.remote_condition.description
        )
    assert is_open(good.client.connection)


def test_who_has_gone_when_the_grace_ends_does_no_harm(bus: MemoryBus) -> None:
    bus.client().close()
    bus.client().vanish()
    gone = Claimant(bus)
    gone.put(FIVE)
    gone.client.vanish()
    bus.advance(30)
    assert Claimant(bus).put(EVERYTHING, "sb://ns.example")[0] == 202


def test_a_token_does_not_keep_a_connection_that_has_gone_in_memory(bus: MemoryBus) -> None:
    claimant = Claimant(bus)
    claimant.put(HOUR)
    engine = weakref.ref(claimant.client.engine)
    claimant.client.vanish()
    del claimant
    bus.advance(21)  # the grace is over, too
    gc.collect()
    assert engine() is None
    bus.advance(3600)


# -- SASL --------------------------------------------------------------------


def test_a_rule_by_sasl_plain_needs_no_token(bus: MemoryBus) -> None:
    client = bus.client(user="all")
    sender, receiver = client.sender("q"), client.receiver("q")
    bus.advance(100)
    sender.send("hello")
    assert receiver.bodies == ["hello"]
    reader = bus.client(user="reader")
    assert is_open(reader.receiver("q").link)
    assert refusal(reader.sender("q"))[0] == "amqp:unauthorized-access"


def test_the_service_offers_its_mechanisms_and_says_no_more_in_its_open() -> None:
    from proton.utils import BlockingConnection

    with Bus("servicebus", namespace=NAMESPACE) as bus:
        options = {"timeout": 10, "reconnect": False}
        by_name = BlockingConnection(
            bus.address, user="all", password=KEY, allowed_mechs="PLAIN", **options
        )
        assert by_name.conn.remote_properties is None
        assert by_name.conn.remote_offered_capabilities is None
        assert by_name.conn.remote_container.endswith("_G1")
        assert by_name.conn.transport.remote_max_frame_size == 65536
        nobody = BlockingConnection(bus.address, allowed_mechs="ANONYMOUS", **options)
        known = {(c.user, c.mechanism) for c in bus.connections}
        assert known == {("all", "PLAIN"), ("anonymous", "ANONYMOUS")}
        with pytest.raises(Exception, match="Authentication failed"):
            BlockingConnection(
                bus.address, user="all", password=WRONG_KEY, allowed_mechs="PLAIN", **options
            )
        by_name.close()
        nobody.close()


def test_a_token_for_years_does_not_trouble_the_timers() -> None:
    timers = Timers()
    timers.at(4e9, lambda: None)
    timers.at(float("inf"), lambda: None)
    assert timers.delay(0.0) == 3600.0
    assert timers.delay(4e9 - 1) == 1.0


# -- settings ----------------------------------------------------------------


def test_rules_and_topics_are_read_from_text() -> None:
    assert parse_rule("root:a2V5=") == ("root", Rule("a2V5="))
    assert parse_rule("r:k:send, Listen") == ("r", Rule("k", frozenset({"Send", "Listen"})))
    assert parse_topic("t:a, b") == ("t", ("a", "b"))
    assert parse_topic("t") == ("t", ())


@pytest.mark.parametrize("text", ["", "root", "root:", ":key", "root:key:Delete"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a rule is NAME:KEY"):
        parse_rule(text)


@pytest.mark.parametrize("text", ["", ":s", "t:a,,b"])
def test_a_topic_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a topic is NAME"):
        parse_topic(text)


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"queues": ("q",)}, "needs a rule"),
        ({"rules": RULES, "lock_duration": 0.0}, "lock_duration"),
        ({"rules": RULES, "token_grace": 0.0}, "token_grace"),
        ({"rules": RULES, "max_delivery_count": 0}, "max_delivery_count"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Namespace(**settings)


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"mode": "servicebus"}, "needs a namespace"),
        ({"mode": "broker", "namespace": NAMESPACE}, "no other, needs a namespace"),
        ({"mode": "servicebus", "namespace": NAMESPACE, "users": {"a": "b"}}, "are its rules"),
    ],
)
def test_a_bus_needs_a_namespace_exactly_in_its_mode(settings: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Bus(**settings)
