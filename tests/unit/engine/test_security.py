# SPDX-License-Identifier: Apache-2.0

"""What the configuration makes of SASL and the Open frame."""

import pytest

from amqp1_driver.engine.security import (
    anonymous,
    engine_properties,
    external,
    mechanisms,
)
from amqp1_driver.options import Host, default_settings

NOBODY = Host("bus", 5672)
USER = Host("bus", 5672, "me", "secret")


def certificate(tmp_path, **more):
    file = tmp_path / "cert.pem"
    file.write_text("")
    return default_settings(ssl_cert_file=str(file), **more)


def test_without_credentials_the_mechanism_is_anonymous():
    assert mechanisms(default_settings(), NOBODY) == ("ANONYMOUS",)


def test_a_user_means_a_password_mechanism_and_never_anonymous():
    found = mechanisms(default_settings(), USER)
    assert found == ("SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN")


def test_a_client_certificate_means_external_unless_there_is_a_user(tmp_path):
    settings = certificate(tmp_path)
    assert mechanisms(settings, NOBODY) == ("EXTERNAL", "ANONYMOUS")
    assert "PLAIN" in mechanisms(settings, USER)


@pytest.mark.parametrize("host", [NOBODY, USER])
def test_the_option_decides_whatever_the_credentials(host):
    settings = default_settings(sasl_mechanisms="gssapi  plain")
    assert mechanisms(settings, host) == ("GSSAPI", "PLAIN")


def test_the_open_frame_names_the_host_unless_there_is_a_virtual_host():
    settings = default_settings()
    assert engine_properties(settings, NOBODY, None)["hostname"] == "bus"
    assert engine_properties(settings, NOBODY, "vhost:a")["hostname"] == "vhost:a"


def test_the_defaults_of_the_open_frame():
    assert engine_properties(default_settings(), NOBODY, None) == {
        "hostname": "bus",
        "max-frame-size": 1048576,
        "x-max-message-size": 67108864,
        "idle-time-out": 60.0,
        "x-sasl-mechs": "ANONYMOUS",
    }


def test_an_idle_timeout_of_zero_is_not_sent():
    assert "idle-time-out" not in engine_properties(default_settings(idle_timeout=0), NOBODY, None)


def test_frames_are_traced_when_asked_for():
    assert engine_properties(default_settings(trace=True), NOBODY, None)["x-trace-protocol"]


def test_credentials_and_sasl_configuration(tmp_path):
    settings = default_settings(
        sasl_mechanisms="PLAIN", sasl_config_dir=str(tmp_path), sasl_config_name="mine"
    )
    found = engine_properties(settings, USER, None)
    assert {name: found[name] for name in found if name.startswith("x-")} == {
        "x-max-message-size": 67108864,
        "x-sasl-mechs": "PLAIN",
        "x-username": "me",
        "x-password": "secret",
        "x-password-in-clear": True,
        "x-sasl-config-dir": str(tmp_path),
        "x-sasl-config-name": "mine",
    }


def test_a_user_without_password_has_an_empty_one():
    found = engine_properties(default_settings(), Host("bus", 5672, "me"), None)
    assert (found["x-username"], found["x-password"]) == ("me", "")


def test_external_is_left_to_the_layer_in_front_of_proton(tmp_path):
    found = engine_properties(certificate(tmp_path), NOBODY, None)
    assert [name for name in found if name.startswith("x-")] == ["x-max-message-size"]


def test_service_bus_is_told_by_tokens_who_we_are():
    settings = default_settings(addressing_mode="servicebus")
    assert mechanisms(settings, USER) == ("ANONYMOUS",)
    assert anonymous(settings, USER)
    assert "x-username" not in engine_properties(settings, USER, None)
    plain = default_settings(addressing_mode="servicebus", sasl_mechanisms="PLAIN")
    assert (mechanisms(plain, USER), anonymous(plain, USER)) == (("PLAIN",), False)
    assert engine_properties(plain, USER, None)["x-password"] == "secret"


FOREIGN = Host("other", 5672, "me", "secret", foreign=True)
SCRAM = ("SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1")


@pytest.mark.parametrize(
    ("host", "options", "names"),
    [
        (USER, {}, (*SCRAM, "PLAIN")),
        (USER, {"sasl_allow_insecure_mechs": False}, SCRAM),
        (USER, {"sasl_allow_insecure_mechs": False, "ssl": True}, (*SCRAM, "PLAIN")),
        (USER, {"sasl_allow_insecure_mechs": False, "sasl_mechanisms": "login PLAIN"}, ()),
        # a host that only a redirect has named
        (FOREIGN, {}, SCRAM),
        (FOREIGN, {"sasl_mechanisms": "PLAIN GSSAPI"}, ("GSSAPI",)),
        (FOREIGN, {"ssl": True}, (*SCRAM, "PLAIN")),
    ],
)
def test_without_tls_the_password_goes_in_clear_only_where_it_may(host, options, names):
    settings = default_settings(**options)
    assert mechanisms(settings, host) == names
    found = engine_properties(settings, host, None)
    assert found["x-sasl-mechs"] == " ".join(names)
    clear = None if "ssl" in options else "PLAIN" in names
    assert found.get("x-password-in-clear") is clear


@pytest.mark.parametrize(
    ("names", "outside"),
    [
        (("EXTERNAL",), True),
        (("EXTERNAL", "ANONYMOUS"), True),
        (("ANONYMOUS",), False),
        (("EXTERNAL", "PLAIN"), False),
    ],
)
def test_external_is_made_outside_of_proton(names, outside):
    assert external(names) is outside
