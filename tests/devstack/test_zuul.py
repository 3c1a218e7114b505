# SPDX-License-Identifier: Apache-2.0

"""The jobs in .zuul.yaml, held against the devstack plugin and tox.ini."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.devstack.world import TOP, Devstack

ITEMS: list[dict[str, Any]] = yaml.safe_load((TOP / ".zuul.yaml").read_text())
JOBS: dict[str, dict[str, Any]] = {
    item["job"]["name"]: item["job"] for item in ITEMS if "job" in item
}
PROJECT: dict[str, Any] = next(item["project"] for item in ITEMS if "project" in item)
SETTINGS = set(re.findall(r"^ *(AMQP1_\w+)=", (TOP / "devstack/settings").read_text(), re.M))

#: Jobs and parents that other projects define.
_UPSTREAM = {"unittests", "openstack-tox", "devstack-tempest", "tempest-multinode-full-base"}


def localrc(name: str) -> dict[str, str]:
    """devstack_localrc of a job, with what it inherits."""
    job = JOBS.get(name)
    if job is None:
        return {}
    return {**localrc(job["parent"]), **job.get("vars", {}).get("devstack_localrc", {})}


WITH_DEVSTACK = sorted(name for name in JOBS if localrc(name))


@pytest.mark.parametrize("name", sorted(JOBS))
def test_every_parent_is_known(name: str) -> None:
    assert JOBS[name]["parent"] in {*_UPSTREAM, *JOBS}


@pytest.mark.parametrize("pipeline", ["check", "gate", "periodic", "experimental"])
def test_pipelines_run_jobs_that_exist(pipeline: str) -> None:
    jobs = PROJECT[pipeline]["jobs"]
    assert len(jobs) == len(set(jobs))
    assert [job for job in jobs if job not in JOBS or JOBS[job].get("abstract")] == []


def test_every_job_is_run_somewhere_and_gate_is_check() -> None:
    pipelines = ("check", "periodic", "experimental")
    run = {job for pipeline in pipelines for job in PROJECT[pipeline]["jobs"]}
    assert run == {name for name, job in JOBS.items() if not job.get("abstract")}
    assert PROJECT["gate"] == PROJECT["check"]


def test_every_kind_of_service_has_a_job() -> None:
    chosen = {
        value
        for name in WITH_DEVSTACK
        for key, value in localrc(name).items()
        if key.endswith("_SERVICE")
    }
    assert chosen == {"rabbitmq", "artemis", "broker-j", "external", "rabbit"}


@pytest.mark.parametrize("name", WITH_DEVSTACK)
def test_variables_are_those_of_the_plugin(name: str) -> None:
    assert {key for key in localrc(name) if key.startswith("AMQP1_")} <= SETTINGS


@pytest.mark.parametrize("name", WITH_DEVSTACK)
def test_the_plugin_takes_the_settings_of_the_job(name: str, tmp_path: Path) -> None:
    devstack = Devstack(tmp_path, **localrc(name))
    assert devstack.evaluate("amqp1_check_settings; get_transport_url").startswith("amqp://")


def test_tox_has_the_environments_of_the_jobs() -> None:
    tox = configparser.ConfigParser()
    tox.read(TOP / "tox.ini")
    wanted = {
        job["vars"]["tox_envlist"] for job in JOBS.values() if job["parent"] == "openstack-tox"
    }
    assert wanted == {"functional"}
    assert tox.has_section("testenv:functional")


def test_playbooks_are_there() -> None:
    books = {job[key] for job in JOBS.values() for key in ("pre-run", "run") if key in job}
    assert books == {".zuul/playbooks/gate.yaml", ".zuul/playbooks/external-bus.yaml"}
    assert all(yaml.safe_load((TOP / book).read_text()) for book in books)
