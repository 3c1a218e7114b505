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

"""Failures of connections in words: amqp1_driver.protocol.diagnosis."""

import pytest

from amqp1_driver.exceptions import AuthenticationFailed, ConnectionFailed, ConnectionLost
from amqp1_driver.options import Host, default_settings
from amqp1_driver.protocol.diagnosis import plain_words, while_opening

LOST = ConnectionLost("connection lost: Connection reset by peer", host="bus:5671")


def test_without_a_common_mechanism_the_allowed_ones_are_named():
    settings = default_settings(sasl_mechanisms="GSSAPI SCRAM-SHA-256")
    assert plain_words("Authentication failed [mech=none]", settings, Host("bus", 5672)) == (
        "no SASL mechanism in common with the peer; allowed here: GSSAPI SCRAM-SHA-256")


@pytest.mark.parametrize("text", [None, "", "Authentication failed [mech=PLAIN]"])
def test_other_descriptions_stay_as_they_are(text):
    assert plain_words(text, default_settings(), Host("bus", 5672)) == text


@pytest.mark.parametrize("first", [b"", b"\x15"], ids=["no word", "TLS alert"])
def test_a_peer_that_hangs_up_on_our_header_may_want_tls(first):
    found = while_opening(LOST, default_settings(), first)
    assert isinstance(found, ConnectionFailed)
    assert str(found) == (
        "connection lost: Connection reset by peer; is this a TLS port? (host=bus:5671)")
    assert found.__cause__ is LOST


@pytest.mark.parametrize(("ssl", "first"), [(True, b""), (False, b"A")],
                         ids=["over TLS", "has spoken AMQP"])
def test_otherwise_the_error_stays_as_it_is(ssl, first):
    assert while_opening(LOST, default_settings(ssl=ssl), first) is LOST


def test_a_peer_that_hangs_up_on_the_virtual_host():
    found = while_opening(LOST, default_settings(), b"A", "prod")
    assert isinstance(found, ConnectionFailed)
    assert "is there a virtual host 'prod', and may the user use it?" in str(found)
    assert found.__cause__ is LOST


@pytest.mark.parametrize("error", [
    AuthenticationFailed(host="h"),
    ConnectionFailed(host="h", condition="amqp:not-allowed"),
])
def test_a_peer_that_says_why_is_not_doubted(error):
    assert while_opening(error, default_settings(), b"A", "prod") is error
