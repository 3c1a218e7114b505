# SPDX-License-Identifier: Apache-2.0

"""``amqp1 bench-flow``: what is measured, counted and printed; and a short run on RabbitMQ.

No timing is judged here.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amqp1_driver.bench.children import Crew, Trouble
from amqp1_driver.bench.flow import plan, rabbitmq, run, session
from amqp1_driver.bench.flow.plan import Flow, Queue
from amqp1_driver.bench.plan import Entry, entry
from amqp1_driver.bench.run import Limits
from amqp1_driver.bench.workers import amqp091
from amqp1_driver.bench.workers.copies import Copies
from amqp1_driver.bench.workers.ledger import Histogram, pack, unpack
from amqp1_driver.cli import bench_flow
from amqp1_driver.cli import main as cli

NODE = rabbitmq.Node("RabbitMQ 4.3.6", "guest:guest@127.0.0.1:1", "sid", {"added_ms": 5.0})


# -- plan ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "kind", "expected"),
    [
        (
            "amqp:",
            "classic",
            Queue(
                "openstack:rpc:unicast:flow:top:flow",
                "classic",
                {"x-queue-type": "classic", "x-expires": 1800000},
                None,
            ),
        ),
        (
            "amqp:",
            "quorum",
            Queue(
                "openstack:rpc:unicast:flow:top:flow", "quorum", {"x-queue-type": "quorum"}, None
            ),
        ),
        ("rabbit:", "classic", Queue("top.flow", "classic", {}, "top.flow")),
        ("amqp091:", "classic", Queue("top.flow", "classic", {}, "top.flow")),
        ("rabbit:", "quorum", Queue("top.flow", "quorum", {"x-queue-type": "quorum"}, "top.flow")),
    ],
)
def test_each_driver_finds_its_queue(url: str, kind: str, expected: Queue) -> None:
    assert plan.queue(entry(url), "flow", "top", kind) == expected


@pytest.mark.parametrize("url", ["kafka:", "floor:", "tcp:"])
def test_other_drivers_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="only drivers for amqp: and rabbit:"):
        plan.scheme(entry(url))


def test_the_drivers_by_default_and_their_options() -> None:
    args = cli.parser(["bench-flow"]).parse_args(["bench-flow", "--option", "rabbit:a.b=1"])
    found = bench_flow.entries(args)
    assert [(item.label, item.url) for item in found] == [
        ("rabbit, pool of 1", "rabbit:"),
        ("rabbit", "rabbit:"),
        ("ours", "amqp:"),
    ]
    assert [item.options for item in found] == [
        (
            "oslo_messaging_rabbit.amqp_durable_queues=true",
            "oslo_messaging_rabbit.conn_pool_min_size=1",
            "oslo_messaging_rabbit.rpc_conn_pool_size=1",
        ),
        ("oslo_messaging_rabbit.amqp_durable_queues=true", "a.b=1"),
        ("oslo_messaging_amqp.delete_unused_queues=false",),
    ]


def test_the_plain_client_has_no_options_and_reads_what_the_driver_for_rabbitmq_wrote() -> None:
    plain = entry("plain=amqp091:")
    assert plan.with_basics([plain], [plain]) == [plain]
    assert Flow("receive-and-send", prefetch=200).options(plain) == []
    maker = plan.filler(plain)
    assert (maker.url, maker.options) == (
        "rabbit:",
        ("oslo_messaging_rabbit.amqp_durable_queues=true",),
    )


def test_a_receiver_has_the_same_prefetch_with_both_drivers() -> None:
    flow = Flow("receive-and-send", prefetch=200)
    assert flow.options(entry("amqp:")) == ["oslo_messaging_amqp.rpc_server_credit=200"]
    assert flow.options(entry("rabbit:")) == ["oslo_messaging_rabbit.rabbit_qos_prefetch_count=200"]
    assert Flow("receive-and-send", prefetch=0).options(entry("amqp:")) == []
    assert Flow("two-senders", prefetch=200).options(entry("amqp:")) == []


def test_scenarios_are_all_combinations() -> None:
    args = cli.parser(["bench-flow"]).parse_args(
        [
            "bench-flow",
            "two-senders",
            "--threads",
            "1,8",
            "--quorum-threads",
            "400",
            "--size",
            "1K",
            "--seconds",
            "2",
        ]
    )
    found = bench_flow.scenarios(args)
    assert found == [
        Flow("two-senders", threads, 400, 1024, 2.0, 1_000_000, 200) for threads in (1, 8)
    ]
    assert found[0].title == (
        "two senders: 1 thread to a classic queue, 400 threads to a quorum queue, 1 KiB"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["three-senders"],
        ["--threads", "0"],
        ["--fsync", "-1"],
        ["--waiting", "0"],
        ["--prefetch", "x"],
        ["--bus", "router"],
    ],
)
def test_wrong_arguments_end_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench-flow", *arguments])
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_driver_without_rabbitmq_ends_with_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["bench-flow", "--compare", "floor:"]) == 2
    assert "only drivers for amqp: and rabbit:" in capsys.readouterr().err


# -- copies of a message ---------------------------------------------------------------


def test_a_copy_has_its_own_number_and_id_and_the_same_length() -> None:
    copies = Copies(b"\x00%d 0000000000 id-0123456789abcdef %s", b"id-0123456789abcdef")
    assert copies.copy(0) == b"\x00%d 0000000000 id-0123456700000000 %s"
    assert copies.copy(1_000_255) == b"\x00%d 0001000255 id-01234567000f433f %s"


@pytest.mark.parametrize(
    ("message", "identity", "words"),
    [
        (b"0000000000 0123456789abcde", b"0123456789abcde", "too short"),
        (b"000000000 0123456789abcdef", b"0123456789abcdef", "b'0000000000' is 0 times"),
        (b"0000000000", b"0123456789abcdef", "is 0 times"),
        (b"0000000000 0000000000 0123456789abcdef", b"0123456789abcdef", "is 2 times"),
    ],
)
def test_a_message_that_can_not_be_copied(message: bytes, identity: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Copies(message, identity)


# -- the slow disk ---------------------------------------------------------------------

_SYNCS = """
import os, tempfile, time
with tempfile.TemporaryFile() as file:
    for sync in (os.fsync, os.fdatasync):
        since = time.monotonic()
        sync(file.fileno())
        print(time.monotonic() - since)
"""


def test_a_slow_disk_takes_its_time_for_every_sync() -> None:
    with rabbitmq.slowed(30) as environment:
        done = subprocess.run(
            [sys.executable, "-c", _SYNCS],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert [float(line) >= 0.03 for line in done.stdout.split()] == [True, True]
    assert not Path(environment["LD_PRELOAD"]).exists()


def test_the_disk_as_it_is_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq.shutil, "which", lambda name: None)
    with rabbitmq.slowed(0) as environment:
        assert environment == {}
    with pytest.raises(Trouble, match="needs a C compiler"), rabbitmq.slowed(5):
        pass


# -- what waits ------------------------------------------------------------------------


def _backlog(monkeypatch: pytest.MonkeyPatch, depth: int, loaded: int) -> run.Backlog:
    monkeypatch.setattr(rabbitmq, "declare", lambda *_: None)
    monkeypatch.setattr(rabbitmq, "depth", lambda *_: depth)
    made = run.Backlog(entry("amqp:"), NODE, {}, 1.0)
    made.seen.extend(bytes(loaded))
    return made


def test_what_is_neither_received_nor_waiting_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _backlog(monkeypatch, depth=5, loaded=10)
    with Crew() as crew:
        # of ten, three are received, one of them three times; five wait: two are lost
        heard = {"marks": {"0": pack(bytes([1, 3, 0, 0, 1]))}}
        assert made.check(heard, 0.0, crew) == (2, 2)
        # what was lost once is not lost again; what came in an earlier run comes twice
        monkeypatch.setattr(rabbitmq, "depth", lambda *_: 4)
        heard = {"marks": {"0": pack(bytes([1, 0, 0, 0, 0, 1]))}}
        assert made.check(heard, 0.0, crew) == (0, 1)
        assert made.check({"marks": {}}, 0.0, crew) == (0, 0)


def test_a_queue_that_is_full_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _backlog(monkeypatch, depth=7, loaded=7)
    made.fill(7)  # a process would be started in vain: there is no kind in its order
    assert len(made.seen) == 7


def test_what_a_failed_run_has_received_is_not_lost_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # of ten, a run without a report has received three
    made = _backlog(monkeypatch, depth=7, loaded=10)
    made.fill(7)
    monkeypatch.setattr(rabbitmq, "depth", lambda *_: 5)
    with Crew() as crew:
        # the next run receives one of the seven, and one more is missing
        heard = {"marks": {"0": pack(bytes([0, 0, 0, 1]))}}
        assert made.check(heard, 0.0, crew) == (1, 0)


class _NoLoader(Crew):
    """A crew whose worker fails to load."""

    def add(self, name: str, *_: Any) -> Any:
        return SimpleNamespace(tell=lambda **_: None)

    def wait(self, event: str, *_: Any) -> Any:
        if event == "load":
            raise Trouble("not load in 1 s: loader")


def test_what_a_failed_loader_has_not_sent_is_not_lost_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = _backlog(monkeypatch, depth=4, loaded=4)
    monkeypatch.setattr(run, "Crew", _NoLoader)
    with pytest.raises(Trouble, match="not load"):
        made.fill(10)
    # two of its six messages have come; these numbers must not be used again
    assert len(made.seen) == 10
    monkeypatch.setattr(rabbitmq, "depth", lambda *_: 6)
    made.fill(6)
    monkeypatch.setattr(rabbitmq, "depth", lambda *_: 5)
    with Crew() as crew:
        heard = {"marks": {"0": pack(bytes([1]))}}
        assert made.check(heard, 0.0, crew) == (0, 0)


# -- the plain client of AMQP 0.9.1 ----------------------------------------------------


class _Broker:
    """Connection, channel and clock: the broker confirms 1, refuses 2 and forgets 3.

    A message takes a second of the clock.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        self.sock, self._peer = socket.socketpair()
        self.events: dict[str, set[Any]] = {"basic_ack": set(), "basic_nack": set()}
        self.now = 0
        self._published = 0

    def connect(self) -> None:
        """Do nothing."""

    confirm_select = connect

    def channel(self) -> _Broker:
        return self

    def basic_publish(self, *_: Any) -> None:
        self._published += 1
        self.now += 1_000_000_000
        for told in self.events[{1: "basic_ack", 2: "basic_nack"}.get(self._published, "none")]:
            told(self._published, False)

    def monotonic_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Do nothing: only messages take time."""

    def close(self) -> None:
        self.sock.close()
        self._peer.close()


def test_a_plain_client_has_sent_what_the_broker_has_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = _Broker()
    broker.events["none"] = set()
    monkeypatch.setattr(amqp091.amqp, "Connection", lambda *_, **__: broker)
    monkeypatch.setattr(amqp091, "time", broker)
    order = {"url": "amqp091://h/", "size": 1, "timeout": 0.2, "server": "flow"}
    worker = amqp091.Worker(order)
    try:
        told = worker.send(0, 3.0, [{"name": "classic", "topic": "t", "first": 0}])
    finally:
        worker.close()
    found = told["senders"]["classic"]
    assert (found["sent"], found["failed"]) == (1, 2)
    assert unpack(found["states"]["0"]) == bytes([1, 2, 2])
    assert found["errors"] == {
        "MessageNacked": (1, "the broker refuses a message"),
        "TimeoutError": (1, "1 messages not confirmed"),
    }
    assert Histogram.load(found["latency"]).count == 1


# -- figures and tables ----------------------------------------------------------------


def _latency(milliseconds: int) -> dict[str, float]:
    return dict.fromkeys(("p50", "p90", "p99", "max"), milliseconds * 1000.0)


def _two_senders(classic: float, quorum: float, **more: Any) -> dict[str, Any]:
    return {
        "about": {},
        "connections": ["1.0"],
        "busy": 0.5,
        "errors": {},
        "sent": 10,
        "failed": 0,
        "received": 0,
        "lost": 0,
        "duplicated": 0,
        "in_doubt": 0,
        "rates": {
            "classic": {"alone": 200.0, "both": classic},
            "quorum": {"alone": 50.0, "both": quorum},
        },
        "latency_us": {
            "classic": {"alone": _latency(1), "both": _latency(2)},
            "quorum": {"alone": _latency(10), "both": _latency(20)},
        },
        **more,
    }


def test_a_sender_in_figures() -> None:
    latency = Histogram()
    latency.add(100_000)
    outcome = {
        "sent": 5,
        "failed": 1,
        "ended": 2_500_000_000,
        "latency": latency.dump(),
        "errors": {"Oops": (1, "no")},
    }
    assert run.sender_figures(outcome, 500_000_000) == {
        "sent": 5,
        "failed": 1,
        "per_s": 2.5,
        "latency_us": {"p50": 100.0, "p90": 100.0, "p99": 100.0, "max": 100.0},
        "errors": {"Oops": {"count": 1, "first": "no"}},
    }


def test_medians_sums_and_what_is_kept() -> None:
    runs = [_two_senders(100.0, 50.0, lost=1), _two_senders(150.0, 40.0), _two_senders(50.0, 30.0)]
    found = session.summary("two-senders", runs)
    assert found is not None
    assert found["classic/s"] == 100.0
    assert found["classic kept %"] == 50.0
    assert found["quorum p99 ms"] == 20.0
    assert found["total/s"] == 150.0
    assert (found["sent"], found["lost"], found["connections"]) == (30, 1, ["1.0"])
    assert session.summary("two-senders", []) is None


class _Fake:
    """Stands for the measuring: each driver's rates are those of its label."""

    RATES = {"slow": [50.0, 40.0], "fast": [100.0, 120.0]}  # noqa: RUF012

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, item: Entry, *_: Any) -> dict[str, Any]:
        self.asked.append(item.label)
        if item.label == "broken":
            raise Trouble("it does not start")
        return _two_senders(self.RATES[item.label][self.asked.count(item.label) - 1], 50.0)


def test_drivers_in_turn_and_the_last_compared_with_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = _Fake()
    entries = [entry(f"{label}=amqp:") for label in ("slow", "broken", "fast")]
    played = session.Session(entries, [Flow("two-senders")], 2, NODE, Limits(), measured=fake)
    document = played.play()
    assert fake.asked == ["slow", "broken", "fast", "slow", "broken", "fast"]
    slow, broken, fast = document["scenarios"][0]["entries"]
    assert slow["ratio"]["classic/s"] == {"ratio": 110.0 / 45.0, "low": 2.0, "high": 3.0}
    assert fast["ratio"]["classic/s"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    assert broken["median"] is None
    assert (played.failed, played.faulty, played.refused) == (True, False, False)
    assert document["disk"] == {"added_ms": 5.0}
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == (
        "two senders: 8 threads to a classic queue, 8 threads to a quorum queue, 100 B "
        "(medians of 2 rounds of 5 s)"
    )
    assert "connections 1 of AMQP 1.0 1 of AMQP 1.0" in lines
    assert "classic/s 2.44 (2.00..3.00)" in lines
    assert "broken, round 1: it does not start" in lines


def test_drivers_are_drawn_over_the_number_of_threads(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    entries = [entry(f"{label}=amqp:") for label in ("slow", "broken", "fast")]
    flows = [Flow("two-senders", threads) for threads in (1, 8)]
    fake = _Fake()
    document = session.Session(entries, flows, 1, NODE, Limits(), measured=fake).play()
    session.draw(document, str(tmp_path / "x.svg"))
    picture = (tmp_path / "x.svg").read_text()
    for words in ("two-senders, 100 B", "total/s", "quorum/s", "slow", "broken", "threads"):
        assert f"<!-- {words} -->" in picture


def test_nothing_is_compared_with_a_driver_that_came_to_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries = [entry(f"{label}=amqp:") for label in ("slow", "fast", "broken")]
    session.Session(entries, [Flow("two-senders")], 1, NODE, Limits(), measured=_Fake()).play()
    assert " to " not in capsys.readouterr().out.partition("\n")[2]


def test_what_went_wrong_is_told() -> None:
    wrong = _two_senders(1.0, 1.0, in_doubt=3, errors={"Oops": {"count": 2, "first": "no\nmore"}})
    scenario = {
        "title": "t",
        "kind": "two-senders",
        "seconds": 1.0,
        "entries": [
            {
                "label": "x",
                "runs": [wrong],
                "median": session.summary("two-senders", [wrong]),
                "ratio": {},
            }
        ],
    }
    lines = session.scenario_lines(scenario)
    assert lines[0] == "t (1 round of 1 s)"
    assert lines[-2:] == [
        "x, round 1: 2 x Oops: no",
        "x, round 1: 3 messages came though their sending failed",
    ]


def test_connections_are_counted_by_protocol() -> None:
    assert session.connections(["0.9.1", "0.9.1", "1.0"]) == "2 of AMQP 0.9.1 + 1 of AMQP 1.0"
    assert session.connections([]) == "0"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([0, 9, 1], "0.9.1"),
        ("{0,9,1}", "0.9.1"),
        ([1, 0], "1.0"),
        ("{1,0}", "1.0"),
        ("AMQP 1.0", "AMQP 1.0"),
    ],
)
def test_protocols_as_the_broker_tells_them(told: Any, expected: str) -> None:
    assert rabbitmq.protocol(told) == expected


# -- for real --------------------------------------------------------------------------


@pytest.mark.rabbitmq
@pytest.mark.timeout(400)
def test_on_rabbitmq_nothing_is_lost_and_all_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = cli.main(
        [
            "bench-flow",
            "--threads",
            "2",
            "--seconds",
            "0.5",
            "--warmup",
            "0.1",
            "--waiting",
            "500",
            "--fsync",
            "1",
            "--json",
            str(path),
            "--compare",
            "rabbit:",
            "amqp:",
        ]
    )
    assert done == 0
    document = json.loads(path.read_text())
    assert document["disk"]["added_ms"] == 1.0
    senders, receiver = document["scenarios"]
    for scenario in (senders, receiver):
        for found in scenario["entries"]:
            (one,) = found["runs"]
            assert (one["failed"], one["duplicated"]) == (0, 0)
            assert all(rate > 0 for rate in one["rates"]["quorum"].values())
    # one for each thread and sender; rabbit's listener has one more
    assert senders["entries"][0]["runs"][0]["connections"] == ["0.9.1"] * 4
    assert receiver["entries"][0]["runs"][0]["connections"] == ["0.9.1"] * 3
    for scenario in (senders, receiver):
        ours = scenario["entries"][1]["runs"][0]
        assert ours["connections"] == ["1.0"]
        assert (ours["lost"], ours["in_doubt"]) == (0, 0)
    assert receiver["entries"][1]["runs"][0]["received"] == 500
    assert list(receiver["entries"][1]["runs"][0]["errors"]) == ["empty"]
    assert senders["entries"][1]["runs"][0]["errors"] == {}
