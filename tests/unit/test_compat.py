# SPDX-License-Identifier: Apache-2.0

"""The private parts of oslo.messaging that the driver uses, and the check of proton."""

import sys
import types

import oslo_messaging
import pytest

from amqp1_driver import compat


def test_everything_exported_is_there():
    for name in compat.__all__:
        assert hasattr(compat, name)


def test_base_classes_are_those_of_oslo_messaging():
    assert compat.BaseDriver.__module__ == "oslo_messaging._drivers.base"
    assert issubclass(compat.RpcIncomingMessage, compat.IncomingMessage)
    assert issubclass(compat.TransportDriverError, oslo_messaging.MessagingException)
    assert {"poll", "stop", "cleanup"} <= set(dir(compat.PollStyleListener))


def test_base_driver_keeps_the_configuration_it_is_given():
    class Driver(compat.BaseDriver):
        def send(self, *args, **kwargs): ...
        def send_notification(self, *args, **kwargs): ...
        def listen(self, *args, **kwargs): ...
        def listen_for_notifications(self, *args, **kwargs): ...
        def cleanup(self): ...

    conf, url = object(), object()
    assert Driver(conf, url, default_exchange="x", allowed_remote_exmods=["m"]).conf is conf


def test_envelope():
    assert compat.ENVELOPE_VERSION == "2.0"
    enveloped = {"oslo.version": "2.0", "oslo.message": '{"a": 1}'}
    assert compat.deserialize_msg(enveloped) == {"a": 1}


def test_remote_exception():
    try:
        raise ValueError("wrong")
    except ValueError:
        data = compat.serialize_remote_exception(sys.exc_info())
    error = compat.deserialize_remote_exception(data, [])
    assert isinstance(error, ValueError)
    assert "wrong" in str(error)


def test_groups_of_oslo_messaging():
    groups = dict(compat.upstream_groups())
    assert "metrics_enabled" in [opt.dest for opt in groups["oslo_messaging_metrics"]]


def test_groups_that_the_installed_release_does_not_have_are_left_out(monkeypatch):
    monkeypatch.setattr(
        compat,
        "_UPSTREAM_GROUPS",
        (("oslo_messaging._no_such.client", "nothing"), compat._UPSTREAM_GROUPS[0]),
    )
    assert [group for group, _ in compat.upstream_groups()] == ["oslo_messaging_metrics"]


@pytest.fixture
def proton(monkeypatch):
    """Stand-ins, for the unit tests need neither library."""
    module = types.ModuleType("proton")
    module.SASL = types.SimpleNamespace(extended=lambda: False)
    monkeypatch.setitem(sys.modules, "proton", module)
    monkeypatch.setitem(sys.modules, "pyngus", types.ModuleType("pyngus"))
    return module


@pytest.mark.parametrize("mechanisms", ["", "PLAIN", "ANONYMOUS EXTERNAL  plain"])
def test_proton_without_cyrus_will_do_for_plain_mechanisms(proton, mechanisms):
    compat.check_proton(mechanisms)
    compat.check_proton()


def test_proton_without_cyrus_is_refused_for_others(proton):
    with pytest.raises(compat.MissingProton) as caught:
        compat.check_proton("PLAIN GSSAPI SCRAM-SHA-256")
    text = str(caught.value)
    assert "the mechanisms GSSAPI, SCRAM-SHA-256 of the option sasl_mechanisms" in text
    assert "libsasl2-dev" in text
    assert "cyrus-sasl-devel" in text


def test_proton_with_cyrus_will_do_for_any_mechanism(proton):
    proton.SASL.extended = lambda: True
    compat.check_proton("GSSAPI")


@pytest.mark.parametrize("missing", ["proton", "pyngus"])
def test_missing_libraries_are_named_with_the_packages_they_need(monkeypatch, proton, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # makes the import fail
    with pytest.raises(compat.MissingProton) as caught:
        compat.check_proton()
    text = str(caught.value)
    assert missing in text
    for package in ("pkg-config", "libsasl2-dev", "libssl-dev", "cyrus-sasl-devel"):
        assert package in text


def test_missing_proton_becomes_a_driver_load_failure():
    # oslo_messaging.transport turns RuntimeError into DriverLoadFailure
    assert issubclass(compat.MissingProton, RuntimeError)
