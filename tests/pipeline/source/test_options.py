# SPDX-License-Identifier: Apache-2.0

"""Options of the data source, as Spark hands them over."""

from __future__ import annotations

import os

import pytest

from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import SpoolLimits

NEEDED = {"url": "amqp://user:secret@host:5672/", "address": "a", "spoolDir": "/spool"}


def test_defaults() -> None:
    options = SourceOptions.parse(NEEDED)

    assert options == SourceOptions(
        url="amqp://user:secret@host:5672/",
        addresses=("a",),
        topics=(),
        exchange="openstack",
        pool=None,
        priorities=("audit", "debug", "info", "warn", "error", "critical", "sample"),
        spool_dir="/spool",
        max_rows_per_trigger=50_000,
        partitions=0,
        links=1,
        credit=2000,
        max_buffer_bytes=67_108_864,
        refused_timeout=300.0,
        max_spool_rows=1_000_000,
        max_spool_bytes=4_294_967_296,
        segment_rows=10_000,
        linger=0.2,
        drain_idle=1.0,
        drain_max=600.0,
        fail_on_data_loss=True,
        driver=(),
    )
    assert options.limits() == SpoolLimits(1_000_000, 4_294_967_296, 10_000)
    assert options.tasks() >= 1


def test_all_of_them_in_any_case() -> None:
    options = SourceOptions.parse(
        {
            "URL": "amqp://h",
            "TOPIC": " t , u",
            "Exchange": "nova",
            "pool": "p",
            "priorities": "info,error",
            "spooldir": "file:///s",
            "maxrowspertrigger": "10",
            "PARTITIONS": "3",
            "Links": "2",
            "credit": "7",
            "maxSpoolRows": "100",
            "maxBufferBytes": "5000",
            "RefusedTimeoutMs": "2500",
            "maxSpoolBytes": "1000000",
            "segmentRows": "5",
            "lingerMs": "50",
            "drainIdleMs": "0",
            "drainMaxMs": "1500",
            "failOnDataLoss": "False",
            "driver.SSL_ca_file": "/ca.pem",
            "driver.idle_timeout": "5",
        }
    )

    assert options == SourceOptions(
        url="amqp://h",
        topics=("t", "u"),
        exchange="nova",
        pool="p",
        priorities=("info", "error"),
        spool_dir="/s",
        max_rows_per_trigger=10,
        partitions=3,
        links=2,
        credit=7,
        max_buffer_bytes=5000,
        refused_timeout=2.5,
        max_spool_rows=100,
        max_spool_bytes=1_000_000,
        segment_rows=5,
        linger=0.05,
        drain_idle=0.0,
        drain_max=1.5,
        fail_on_data_loss=False,
        driver=(("idle_timeout", "5"), ("ssl_ca_file", "/ca.pem")),
    )
    assert options.tasks() == 3


def test_a_small_spool_has_small_segments() -> None:
    assert SourceOptions.parse({**NEEDED, "maxSpoolRows": "100"}).segment_rows == 50


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a", "/a"),
        ("b/../c:d", "/home/me/c:d"),
        ("./a:b", "/home/me/a:b"),
    ],
)
def test_the_folder_of_the_spool_is_absolute(
    text: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/home/me")
    assert SourceOptions.parse({**NEEDED, "spoolDir": text}).spool_dir == path


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"url": None}, "option 'url' is missing"),
        ({"spoolDir": None}, "option 'spoolDir' is missing"),
        ({"spoolDir": " "}, "option 'spoolDir' is empty"),
        ({"spoolDir": "hdfs://a/b"}, "option 'spoolDir' = 'hdfs://a/b' is no path of this machine"),
        ({"spoolDir": "file://a/b"}, "option 'spoolDir' = 'file://a/b' is no path of this machine"),
        ({"address": None}, "one of the options 'address' and 'topic' is needed"),
        ({"topic": "t"}, "one of the options 'address' and 'topic' is needed, and not both"),
        ({"address": " , "}, "option 'address' = ' , ' names none"),
        ({"address": "a,b,a"}, "option 'address' = 'a,b,a' names one twice"),
        ({"credit": "0"}, "option 'credit' = '0' is less than 1"),
        ({"links": "two"}, "option 'links' = 'two' is no whole number"),
        ({"lingerMs": "-1"}, "option 'lingerMs' = '-1' is less than 0"),
        (
            {"failOnDataLoss": "maybe"},
            "option 'failOnDataLoss' = 'maybe' is neither true nor false",
        ),
        ({"adress": "a"}, "option 'adress' is not known; did you mean 'address'?"),
        ({"zzz": "a"}, "option 'zzz' is not known"),
        ({"driver.": "a"}, "option 'driver.' names no option of the driver"),
        (
            {"maxSpoolRows": "100", "segmentRows": "60"},
            "options 'maxSpoolRows' = 100, 'maxSpoolBytes' = 4294967296, 'segmentRows' = 60: "
            "the spool must take two segments",
        ),
    ],
)
def test_wrong_ones_are_named(changes: dict[str, str | None], text: str) -> None:
    options = {name: value for name, value in {**NEEDED, **changes}.items() if value is not None}
    with pytest.raises(ValueError, match="^" + text.replace("?", r"\?")) as caught:
        SourceOptions.parse(options)
    assert "secret" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    options = SourceOptions.parse({**NEEDED, "driver.ssl_key_password": "geheim"})
    assert "secret" not in repr(options)
    assert "geheim" not in repr(options)
