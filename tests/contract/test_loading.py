# SPDX-License-Identifier: Apache-2.0

"""Contract: loading and configuration."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
import threading
from pathlib import Path

import oslo_messaging
import pytest
from oslo_config import cfg

import amqp1_driver
from amqp1_driver import options
from amqp1_driver.driver import driver
from tests.contract.apps import Endpoint

PACKAGE = Path(amqp1_driver.__file__).parent
SCRIPTS = Path(__file__).parent / "scripts"

# Names and defaults that operators' files carry, from the documentation of oslo.messaging 15.
OPERATORS_OPTIONS = {
    "container_name": None,
    "trace": False,
    "ssl": False,
    "ssl_ca_file": "",
    "ssl_cert_file": "",
    "ssl_key_file": "",
    "ssl_key_password": None,
    "ssl_verify_vhost": False,
    "sasl_mechanisms": "",
    "sasl_config_dir": "",
    "sasl_config_name": "",
    "sasl_default_realm": "",
    "connection_retry_interval": 1,
    "connection_retry_backoff": 2,
    "connection_retry_interval_max": 30,
    "link_retry_delay": 10,
    "default_send_timeout": 30,
    "default_notify_timeout": 30,
    "default_sender_link_timeout": 600,
    "addressing_mode": "dynamic",
    "pseudo_vhost": True,
    "server_request_prefix": "exclusive",
    "broadcast_prefix": "broadcast",
    "group_request_prefix": "unicast",
    "rpc_address_prefix": "openstack.org/om/rpc",
    "notify_address_prefix": "openstack.org/om/notify",
    "multicast_address": "multicast",
    "unicast_address": "unicast",
    "anycast_address": "anycast",
    "default_notification_exchange": None,
    "default_rpc_exchange": None,
    "reply_link_credit": 200,
    "rpc_server_credit": 100,
    "notify_server_credit": 100,
}


def run_script(name: str, *arguments: str) -> str:
    """What a script of this folder prints; it must exit with 0."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / name), *arguments],
        timeout=60,
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("scheme", ["amqp", "amqp+oslo", "amqp+x"])
def test_every_scheme_that_begins_with_amqp_loads_this_driver(make_app, scheme):
    transport = make_app("").transport(f"{scheme}://nowhere.invalid")
    assert type(transport._driver) is driver.Amqp1Driver


def test_the_entry_point_is_that_of_the_package():
    (entry,) = importlib.metadata.entry_points(group="oslo.messaging.drivers", name="amqp")
    assert entry.value == "amqp1_driver.driver:Amqp1Driver"


def test_releases_with_an_entry_point_of_their_own_are_excluded():
    required = importlib.metadata.requires("amqp1-driver") or []
    assert [r for r in required if r.startswith("oslo.messaging")] == ["oslo.messaging>=16.0.0"]


def test_making_a_transport_connects_nothing_and_starts_no_thread(make_peer, make_app):
    peer = make_peer()
    before = set(threading.enumerate())
    transport = make_app(peer.url).transport()
    assert transport._driver is not None
    assert set(threading.enumerate()) == before
    assert peer.script.cores == []


def test_the_transports_conf_is_the_applications(make_app):
    app = make_app("amqp://nowhere.invalid")
    assert app.transport().conf is app.conf


def test_an_application_with_a_conf_of_its_own_can_call(app):
    app.server(Endpoint())
    assert app.client().call({}, "echo", value="of my own") == "of my own"


def test_the_metrics_and_tracing_groups_are_registered(make_app):
    transport = make_app("amqp://nowhere.invalid").transport()
    assert transport.conf.oslo_messaging_metrics.metrics_enabled is False
    tracing = pytest.importorskip("oslo_messaging._tracing.client")
    names = {option.dest for option in tracing.oslo_messaging_tracing}
    assert names <= set(transport.conf.oslo_messaging_tracing)


def test_groups_which_the_application_has_registered_stay_as_they_are(make_app):
    app = make_app("amqp://nowhere.invalid")
    app.conf.register_opt(
        cfg.StrOpt("metrics_enabled", default="mine"), group="oslo_messaging_metrics"
    )
    assert app.transport().conf.oslo_messaging_metrics.metrics_enabled == "mine"


def test_an_option_of_the_url_overrides_the_configuration(bus, make_app):
    app = make_app(bus.address, rpc_server_credit=55)
    app.server(Endpoint(), transport=app.transport(f"{bus.address}?rpc_server_credit=7"))
    bus.wait_until(
        lambda seen: (
            [
                link.credit
                for connection in seen.peek_connections()
                for link in connection.links
                if link.receiving and "topic" in link.address
            ]
            == [7, 7, 7]
        )
    )


def test_an_unknown_option_in_the_url_fails_at_load_with_its_name(make_app):
    app = make_app("")
    with pytest.raises(options.InvalidOption, match="no_such_thing") as caught:
        app.transport("amqp://user:secret@nowhere.invalid?no_such_thing=1")
    assert "secret" not in str(caught.value)


def test_a_wrong_value_in_the_url_fails_at_load_with_the_options_name(make_app):
    with pytest.raises(options.InvalidOption, match="rpc_server_credit"):
        make_app("").transport("amqp://nowhere.invalid?rpc_server_credit=much")


def test_the_option_names_and_defaults_are_those_of_operators_files():
    ((group, opts),) = options.list_opts()
    assert group == "oslo_messaging_amqp"
    found = {opt.dest: opt.default for opt in opts}
    assert {name: found.get(name, "missing") for name in OPERATORS_OPTIONS} == OPERATORS_OPTIONS


def test_the_option_list_is_a_copy():
    ((_, opts),) = options.list_opts()
    opts[0].default = "changed"
    assert options.list_opts()[0][1][0].default != "changed"


def test_the_options_entry_point_works_without_proton():
    assert run_script("no_proton.py", "options") == "oslo_messaging_amqp\n"


def test_loading_without_proton_names_what_is_missing_and_how_to_get_it():
    said = run_script("no_proton.py", "load")
    assert said.startswith("DriverLoadFailure ")
    assert "Qpid Proton" in said
    assert "libsasl2-dev" in said and "cyrus-sasl-devel" in said


def test_every_module_but_those_of_the_protocol_can_be_imported_without_proton():
    assert run_script("no_proton.py", "modules") == "all imported\n"


def test_private_parts_of_oslo_messaging_are_imported_in_one_module():
    users = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [
                    alias.name
                    for alias in getattr(node, "names", [])
                    if isinstance(node, ast.Import)
                ]
            )
            if any(name.startswith("oslo_messaging._drivers") for name in names):
                users.add(path.relative_to(PACKAGE).as_posix())
    assert users == {"compat.py"}


def test_several_transports_live_in_one_process(bus, make_app):
    first, second = make_app(bus.address), make_app(bus.address)
    first.server(Endpoint(), server="one", topic="first")
    second.server(Endpoint(), server="two", topic="second")
    assert first.client("second").call({}, "echo", value=2) == 2
    assert second.client("first").call({}, "echo", value=1) == 1


def test_one_transport_closed_leaves_the_others_alone(app):
    app.server(Endpoint())
    kept, closed = app.transport(), app.transport()
    assert app.client(transport=closed).call({}, "echo", value=1) == 1
    closed.cleanup()
    assert app.client(transport=kept).call({}, "echo", value=2) == 2


def test_both_kinds_of_transport_have_what_their_users_require(app):
    assert isinstance(app.transport(), oslo_messaging.transport.RPCTransport)
    app.notification_transport()._require_driver_features(requeue=True)
