# SPDX-License-Identifier: Apache-2.0

"""Transport URLs and settings of the devstack plugin, by its own functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.devstack.world import Devstack


def test_user_and_password_are_percent_encoded(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, AMQP1_USERNAME="open:stack", AMQP1_PASSWORD="a@b/c?d%é~")
    assert devstack.evaluate("get_transport_url") == (
        "amqp://open%3Astack:a%40b%2Fc%3Fd%25%C3%A9~@127.0.0.1:5672/"
    )


def test_the_password_is_that_of_rabbit_unless_one_is_given(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path)
    assert devstack.evaluate("get_notification_url") == (
        "amqp://stackamqp:pass%20word%2F1@127.0.0.1:5672/"
    )


def test_a_cell_has_a_virtual_host(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, AMQP1_PASSWORD="p", AMQP1_RPC_PORT="5700")
    assert devstack.evaluate("get_transport_url nova_cell1") == (
        "amqp://stackamqp:p@127.0.0.1:5700/nova_cell1"
    )


@pytest.mark.parametrize(
    ("url", "vhost", "expected"),
    [
        ("amqp://u:p@r1:5672,u:p@r2:5672", "", "amqp://u:p@r1:5672,u:p@r2:5672/"),
        ("amqp://u:p@r1:5672,u:p@r2:5672/", "cell", "amqp://u:p@r1:5672,u:p@r2:5672/cell"),
        ("amqp://host/prod", "", "amqp://host/prod"),
        ("amqp://host/prod", "cell", "amqp://host/prod-cell"),
        ("amqp://host?ssl=true&idle_timeout=9", "cell", "amqp://host/cell?ssl=true&idle_timeout=9"),
    ],
)
def test_a_virtual_host_goes_before_the_query_of_an_external_url(
    tmp_path: Path, url: str, vhost: str, expected: str
) -> None:
    devstack = Devstack(tmp_path, AMQP1_SERVICE="external", AMQP1_RPC_TRANSPORT_URL=url)
    assert devstack.evaluate(f"get_transport_url '{vhost}'") == expected


def test_both_kinds_on_one_bus_share_its_port(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, AMQP1_RPC_PORT="5800")
    assert devstack.evaluate("_amqp1_local_buses") == "rabbitmq 5800"


def test_two_buses_have_two_ports(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, AMQP1_RPC_SERVICE="artemis")
    assert devstack.evaluate("_amqp1_local_buses") == "artemis 5672\nrabbitmq 5674"


def test_notifications_may_stay_on_the_rabbitmq_of_devstack(tmp_path: Path) -> None:
    devstack = Devstack(
        tmp_path, AMQP1_RPC_SERVICE="rabbitmq", AMQP1_NOTIFY_SERVICE="rabbit", RABBIT_PASSWORD="p"
    )
    assert devstack.evaluate(
        "get_transport_url; get_notification_url; is_service_enabled rabbit && echo enabled"
    ) == ("amqp://stackamqp:p@127.0.0.1:5673/\nrabbit://stackrabbit:p@127.0.0.1:5672/\nenabled")


def test_the_rabbitmq_of_devstack_is_left_out(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path)
    assert devstack.evaluate("is_service_enabled rabbit || echo disabled") == "disabled"


def test_without_the_service_amqp1_nothing_is_changed(tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, DISABLED_SERVICES="amqp1", RABBIT_PASSWORD="p")
    assert (
        devstack.evaluate("get_transport_url x; is_service_enabled rabbit && echo enabled")
        == "rabbit://stackrabbit:p@127.0.0.1:5672/x\nenabled"
    )


@pytest.mark.parametrize(
    ("localrc", "word"),
    [
        ({"AMQP1_SERVICE": "zeromq"}, "AMQP1_RPC_SERVICE=zeromq is not one of: rabbitmq artemis"),
        ({"AMQP1_NOTIFY_SERVICE": "kafka"}, "AMQP1_NOTIFY_SERVICE=kafka is not one of"),
        ({"AMQP1_SERVICE": "external"}, '"external" needs AMQP1_RPC_TRANSPORT_URL=amqp://'),
        ({"RABBIT_PASSWORD": ""}, "AMQP1_PASSWORD (or RABBIT_PASSWORD) is not set"),
        (
            {"AMQP1_RPC_SERVICE": "artemis", "AMQP1_RPC_PORT": "5672", "AMQP1_NOTIFY_PORT": "5672"},
            "AMQP1_RPC_PORT and AMQP1_NOTIFY_PORT are both 5672",
        ),
        (
            {"AMQP1_SERVICE": "broker-j", "AMQP1_PSEUDO_VHOST": "False"},
            "only RabbitMQ gets virtual hosts made",
        ),
    ],
)
def test_settings_that_cannot_work_end_the_run_at_once(
    tmp_path: Path, localrc: dict[str, str], word: str
) -> None:
    done = Devstack(tmp_path, **localrc).run("stack", timeout=20, check=False)
    assert done.returncode == 1
    assert word in done.stderr


def test_a_folder_that_is_not_the_plugins_is_not_removed(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("x")
    devstack = Devstack(tmp_path, AMQP1_BUS_DIR=shared)
    devstack.evaluate("amqp1_clean_buses")
    assert (shared / "file").read_text() == "x"
