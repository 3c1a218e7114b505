# SPDX-License-Identifier: Apache-2.0

"""Drivers, scenarios and the order of runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amqp1_driver.bench import plan
from amqp1_driver.bench.plan import Entry, Scenario


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path / "old"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100", 100), ("16K", 16384), ("16 KiB", 16384), ("1M", 1048576), ("1.5k", 1536), ("7B", 7)],
)
def test_sizes(text: str, expected: int) -> None:
    assert plan.size(text) == expected


@pytest.mark.parametrize("text", ["", "K", "-1", "1G", "16KX"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        plan.size(text)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(100, "100 B"), (16384, "16 KiB"), (1048576, "1 MiB"), (1025, "1025 B")],
)
def test_sizes_in_words(number: int, expected: str) -> None:
    assert plan.size_text(number) == expected


def test_an_address_with_a_user_is_no_virtual_environment() -> None:
    found = plan.entry("amqp://user:secret@host:5672/vhost")
    assert (found.url, found.python) == ("amqp://user:secret@host:5672/vhost", sys.executable)
    assert found.label == "amqp"


def test_a_folder_with_an_interpreter_is_one(venv: Path) -> None:
    found = plan.entry(f"amqp://user:secret@host:5672/@{venv}")
    assert found.url == "amqp://user:secret@host:5672/"
    assert found.python == f"{venv}/bin/python"
    assert found.label == "amqp@old"


def test_a_relative_folder_is_one_too(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(venv.parent)
    assert plan.entry("rabbit:@old").python == f"{venv}/bin/python"


def test_a_path_without_an_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no virtual environment \(bin/python\) in .*/missing"):
        plan.entry(f"amqp:@{tmp_path}/missing")


def test_what_is_no_url_is_an_error() -> None:
    with pytest.raises(ValueError, match="a URL begins with SCHEME:"):
        plan.entry("nonsense")


def test_labels(venv: Path) -> None:
    found = plan.entry(f"the removed one=amqp:?trace=true@{venv}")
    assert (found.label, found.url) == ("the removed one", "amqp:?trace=true")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("amqp:", "messaging"),
        ("rabbit:", "messaging"),
        ("floor:", "floor"),
        ("tcp:", "tcp"),
        ("proton:", "raw"),
        ("proton:amqp://h:1/", "raw"),
    ],
)
def test_what_measures_it(url: str, kind: str) -> None:
    assert plan.entry(url).kind == kind


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp:", "amqp://guest:guest@127.0.0.1:77/"),
        ("rabbit:", "rabbit://guest:guest@127.0.0.1:77/"),
        ("amqp:?idle_timeout=5", "amqp://guest:guest@127.0.0.1:77/?idle_timeout=5"),
        ("proton:", "amqp://guest:guest@127.0.0.1:77/"),
        ("proton:amqp://h:1/", "amqp://h:1/"),
        ("amqp://h:1/v", "amqp://h:1/v"),
        ("amqp+oslo:", "amqp+oslo://guest:guest@127.0.0.1:77/"),
        ("amqp:?name=a:b", "amqp://guest:guest@127.0.0.1:77/?name=a:b"),
    ],
)
def test_a_url_without_host_is_completed(url: str, expected: str) -> None:
    assert plan.entry(url).on("guest:guest@127.0.0.1:77") == expected


@pytest.mark.parametrize(
    ("url", "needs"),
    [
        ("amqp:", True),
        ("rabbit:", True),
        ("proton:", True),
        ("amqp://h/", False),
        ("proton:amqp://h:1/", False),
        ("floor:", False),
        ("tcp:", False),
    ],
)
def test_who_needs_a_bus(url: str, needs: bool) -> None:
    assert plan.entry(url).needs_bus is needs


def test_passwords_are_not_shown() -> None:
    assert plan.entry("amqp://u:secret@h:1/v").shown == "amqp://u:***@h:1/v"
    two = plan.entry("a=amqp://u:secret@h:1,v:word@g/?ssl_key_password=key")
    assert two.shown == "amqp://u:***@h:1,v:***@g/?ssl_key_password=***"
    assert plan.entry("amqp://u:sec/ret@h").shown == "amqp://***"
    (with_option,) = plan.with_options(
        [two], ["oslo_messaging_amqp.ssl_key_password=key", "a:oslo_messaging_amqp.ssl=true"]
    )
    assert with_option.shown_options == [
        "oslo_messaging_amqp.ssl_key_password=***",
        "oslo_messaging_amqp.ssl=true",
    ]


def test_a_url_may_lie_in_a_file_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_URL", "rabbit://u:secret@h/")
    (tmp_path / "url").write_text("amqp://u:secret@g/\n")
    found = plan.entry("env:BUS_URL")
    assert (found.label, found.url, found.shown) == (
        "rabbit",
        "rabbit://u:secret@h/",
        "rabbit://u:***@h/",
    )
    found = plan.entry(f"mine=file:{tmp_path}/url")
    assert (found.label, found.url) == ("mine", "amqp://u:secret@g/")
    with pytest.raises(ValueError, match="no such variable"):
        plan.entry("env:NOBODY_SETS_THIS")


@pytest.mark.parametrize(
    ("url", "operation", "lacks"),
    [
        ("tcp:", "call", False),
        ("tcp:", "fanout", True),
        ("proton:", "notify", True),
        ("amqp:", "notify", False),
        ("floor:", "fanout", False),
    ],
)
def test_not_everything_is_known_to_everybody(url: str, operation: str, lacks: bool) -> None:
    assert plan.entry(url).lacks(operation) is lacks


def test_drivers_run_in_turn() -> None:
    entries = [Entry(label, "amqp:", "python") for label in "ABC"]
    order = [(number, item.label) for number, item in plan.interleave(entries, 2)]
    assert order == [(1, "A"), (1, "B"), (1, "C"), (2, "A"), (2, "B"), (2, "C")]


def test_labels_that_come_again_are_numbered() -> None:
    entries = [Entry(label, "amqp:", "python") for label in ("a", "b", "a")]
    assert [item.label for item in plan.unique(entries)] == ["a", "b", "a #2"]


def test_options_for_all_and_for_one() -> None:
    entries = [Entry(label, "amqp:", "python") for label in ("old", "new")]
    found = plan.with_options(entries, ["a.b=1:2", "old:c.d="])
    assert [item.options for item in found] == [("a.b=1:2", "c.d="), ("a.b=1:2",)]


@pytest.mark.parametrize(
    ("text", "words"), [("ab", "is not"), ("older:a.b=1", "no driver is called 'older': old")]
)
def test_wrong_options(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan.with_options([Entry("old", "amqp:", "python")], [text])


def test_titles() -> None:
    assert Scenario("call", 1).title == "call, 1 thread, 100 B"
    assert Scenario("cast", 1, size=12288, payload="nova").title == "cast, 1 thread, nova 12 KiB"
    assert (
        Scenario("call", 8, clients=2, servers=3, size=16384, reply=1, rate=50).title
        == "call, 8 threads, 16 KiB, replies of 1 B, 2 clients, 3 servers, 50/s"
    )
