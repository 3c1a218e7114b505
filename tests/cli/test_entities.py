# SPDX-License-Identifier: Apache-2.0


"""``amqp1 entities``, run for real."""

import subprocess
import sys

import pytest

from amqp1_driver.cli.main import main


def test_names(capsys):
    assert main(["entities", "--rpc", "nova/compute/h1", "--virtual-host", "prod"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "queue openstack--vhost--prod--reply (with sessions)",
        "topic openstack--vhost--prod--rpc--all--nova--compute",
        "queue openstack--vhost--prod--rpc--one--nova--compute--h1",
        "queue openstack--vhost--prod--rpc--any--nova--compute",
        "subscription openstack--vhost--prod--rpc--all--nova--compute/Subscriptions/h1",
    ]


def test_processes_of_each_server(capsys):
    assert main(["entities", "--rpc", "nova/t/h1", "--workers", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "subscription openstack--rpc--all--nova--t/Subscriptions/h1",
        "subscription openstack--rpc--all--nova--t/Subscriptions/h1--2",
    ]


def test_the_script_calls_az_for_each(tmp_path):
    script = subprocess.run(
        [
            sys.executable,
            "-m",
            "amqp1_driver.cli.main",
            "entities",
            "--format",
            "az",
            "--notify",
            "nova/n.info/audit",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    az = tmp_path / "az"
    az.write_text('#!/bin/sh\necho "$@"\n')
    az.chmod(0o755)
    run = subprocess.run(
        ["sh", "-c", script.stdout],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "GROUP": "my group", "NAMESPACE": "ns"},
        check=True,
    )
    place = "--resource-group my group --namespace-name ns"
    topic = "openstack--notify--nova--n.info"
    assert run.stdout.splitlines() == [
        f"servicebus topic create {place} --name {topic}",
        f"servicebus topic subscription create {place} --topic-name {topic} --name default "
        "--lock-duration PT1M",
        f"servicebus topic subscription create {place} --topic-name {topic} --name audit "
        "--lock-duration PT1M",
    ]
    without = subprocess.run(
        ["sh", "-c", script.stdout],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert without.returncode != 0
    assert "GROUP" in without.stderr


def test_without_topics_nothing_is_needed(capsys):
    assert main(["entities"]) == 2
    assert "--rpc or --notify" in capsys.readouterr().out


def test_a_topic_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["entities", "--rpc", "nova"])
    assert "EXCHANGE/TOPIC" in capsys.readouterr().err
