# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import Entry, Scenario
from amqp1_driver.bench.profile import native, samples
from amqp1_driver.bench.profile.report import rst
from amqp1_driver.bench.profile.samples import Frame, Stack, folded, module, parse
from amqp1_driver.bench.profile.session import Profile, Recorder, Recording
from amqp1_driver.bench.run import Limits, Place
from amqp1_driver.cli import main as cli
from tests.bench.test_summary import run

DUMP = """\
Stack (most recent call first):
  File "/v/lib/python3.11/site-packages/oslo_messaging/target.py", line 86 in __call__
  File "/v/lib/python3.11/threading.py", line 982 in run
Stack (most recent call first):
  <no Python frame>
Current thread 0x00007f0000000000 (most recent call first):
  File "/v/lib/python3.11/site-packages/oslo_messaging/target.py", line 86 in __call__
  File "/v/lib/python3.11/threading.py", line 982 in run
Stack (most recent call first):
  File "/work tree/amqp1_driver/client/client.py", line 7 in request
  File "/v/lib/python3.11/thr"""
THREAD = Frame("/v/lib/python3.11/threading.py", 982, "run")
TARGET = Frame("/v/lib/python3.11/site-packages/oslo_messaging/target.py", 86, "__call__")
CLIENT = Frame("/work tree/amqp1_driver/client/client.py", 7, "request")


def test_stacks_are_read_and_one_that_is_cut_off_does_no_harm() -> None:
    stacks = parse(DUMP.splitlines(keepends=True))
    assert stacks == {(THREAD, TARGET): 2, (): 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v/lib/python3.11/site-packages/proton/_wrapper.py", "proton/_wrapper.py"),
        ("/v/lib/python3.12/json/encoder.py", "python:json/encoder.py"),
        ("/home/me/amqp1_driver/amqp1_driver/client/network.py", "amqp1_driver/client/network.py"),
        ("<string>", "<string>"),
    ],
)
def test_a_path_counts_from_its_package_on(path: str, expected: str) -> None:
    assert module(path) == expected


def test_folded_stacks_are_one_line_for_each_way_through_the_functions() -> None:
    stacks: Counter[Stack] = Counter(
        {(THREAD, TARGET): 2, (THREAD, TARGET._replace(line=9)): 1, (): 4}
    )
    assert folded(stacks) == [
        "(no Python) 4",
        "python:threading.py:run;oslo_messaging/target.py:__call__ 3",
    ]


SOURCES = {
    "amqp1_driver/eventloop/futures.py": "if self._gate.acquire(True, left):",
    "amqp1_driver/eventloop/transport.py": "return self._socket.send(data)",
    "amqp1_driver/eventloop/timers.py": "heapq.heappush(self._heap, timer)",
    "amqp1_driver/engine/session_window.py": '_outgoing(s)\n_outgoing = exported("pn_s", c_int)',
    "amqp1_driver/engine/speedups.py": "end = _speedups.fill(transport, out.at, out.size)",
    "amqp1_driver/engine/connection.py": "busy = self.path.pump(self)",
    "amqp1_driver/connection/sender.py": "if link.path.may_send(link):",
    "amqp1_driver/connection/router.py": "found = self._give(link)",
    "amqp1_driver/policy/retry.py": "return self._spent",
    "amqp1_driver/codec/reader.py": "return data",
    "amqp1_driver/driver/listener.py": "return message",
    "oslo_messaging/rpc/client.py": "with self._metrics.measure():",
    "oslo_messaging/_drivers/impl_rabbit.py": "pass",
    "oslo_messaging/_drivers/base.py": "pass",
    "oslo_config/cfg.py": "pass",
    "futurist/_thread.py": "work.run()",
    "elsewhere/thing.py": "pass",
}


def frame(root: Path, name: str) -> Frame:
    """A frame at the first line of a file that is there."""
    path = root / "lib" / "python3.11" / "site-packages" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCES.get(name, "pass") + "\n")
    return Frame(str(path), 1, "f")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("amqp1_driver/eventloop/futures.py", "thread synchronisation, interpreter lock"),
        ("amqp1_driver/eventloop/transport.py", "system calls: socket, poll, wake-up"),
        ("amqp1_driver/eventloop/timers.py", "driver: event loop"),
        (
            "amqp1_driver/engine/session_window.py",
            "proton: C functions, and the driver's module in C",
        ),
        (
            "amqp1_driver/engine/connection.py",
            "proton: C functions, and the driver's module in C",
        ),
        (
            "amqp1_driver/engine/speedups.py",
            "proton: C functions, and the driver's module in C",
        ),
        ("amqp1_driver/connection/sender.py", "proton: C functions, and the driver's module in C"),
        ("amqp1_driver/connection/router.py", "driver: protocol"),
        ("amqp1_driver/policy/retry.py", "driver: policy"),
        ("amqp1_driver/codec/reader.py", "driver: codec"),
        ("amqp1_driver/driver/listener.py", "driver: application side"),
        ("oslo_messaging/rpc/client.py", "oslo.messaging"),
        ("oslo_messaging/_drivers/impl_rabbit.py", "driver: one of oslo.messaging's"),
        ("oslo_messaging/_drivers/base.py", "oslo.messaging"),
        ("oslo_config/cfg.py", "other oslo libraries"),
        ("futurist/_thread.py", "futurist: the server's threads"),
        ("elsewhere/thing.py", "other"),
    ],
)
def test_layers(name: str, expected: str, tmp_path: Path) -> None:
    assert samples.layer((THREAD, frame(tmp_path, name))) == expected


def test_what_is_shared_belongs_to_its_caller(tmp_path: Path) -> None:
    caller = frame(tmp_path, "oslo_messaging/rpc/client.py")
    shared = Frame("/v/lib/python3.11/contextlib.py", 137, "__enter__")
    assert samples.layer((THREAD, caller, shared)) == "oslo.messaging"
    assert samples.layer(()) == "other"


def test_shares_are_parts_of_all_samples(tmp_path: Path) -> None:
    codec = (THREAD, frame(tmp_path, "amqp1_driver/codec/reader.py"))
    loop = Frame("/x/amqp1_driver/eventloop/loop.py", 1, "_run")
    protocol = (THREAD, loop, frame(tmp_path, "amqp1_driver/connection/router.py"))
    stacks: Counter[Stack] = Counter({codec: 3, protocol: 1})
    assert samples.shares(stacks) == {"driver: codec": 0.75, "driver: protocol": 0.25}
    assert samples.io_thread(stacks) == 0.25
    first, second = samples.functions(stacks, 2)
    assert (first["function"], first["own"], first["line"]) == (
        "amqp1_driver/codec/reader.py:f",
        0.75,
        1,
    )
    assert first["text"] == "return data"
    assert (second["function"], second["total"]) == ("amqp1_driver/connection/router.py:f", 0.25)
    assert [each["function"] for each in samples.functions(stacks, 1)] == [first["function"]]


def test_a_flame_graph_has_a_box_for_each_call_as_wide_as_its_share() -> None:
    stacks: Counter[Stack] = Counter({(THREAD, TARGET): 3, (THREAD, CLIENT): 1})
    picture = samples.draw(stacks, "a <title>")
    assert "a &lt;title&gt;" in picture
    assert "<title>python:threading.py:run: 100.0 %, 4 samples</title>" in picture
    assert (
        'data-x="350.00" data-w="1050.00" data-name="target.py:__call__"><title>'
        "oslo_messaging/target.py:__call__: 75.0 %, 3 samples"
    ) in picture
    assert picture.count("<g ") == 4


def test_a_flame_graph_of_nothing_is_a_picture_too() -> None:
    assert samples.draw(Counter(), "nothing").startswith("<svg ")


PERF = """\
     4711
\tffffffff8161a579 finish_task_switch.isra.0 ([kernel.kallsyms])
\tffffffff8161a57a __schedule ([kernel.kallsyms])
\tffffffff8161a57b futex_wait_queue ([kernel.kallsyms])
\t    7f7bc59c2560 __futex_abstimed_wait_common (/lib/x86_64-linux-gnu/libc.so.6)

     4712
\t    7f7bc59c2560 _PyEval_EvalFrameDefault (/v/lib/libpython3.11.so.1.0)

     4711
\t    7f7bc59c2561 [unknown] (/v/lib/python3.11/site-packages/_cffi_backend.so)

"""


def test_what_perf_prints_is_read() -> None:
    first, second, third = native.samples(PERF.splitlines())
    assert first[0] == 4711
    assert first[1][0] == ("finish_task_switch.isra.0", "[kernel.kallsyms]")
    assert second == (4712, [("_PyEval_EvalFrameDefault", "/v/lib/libpython3.11.so.1.0")])
    assert native.component(first[1]) == "kernel: locks (futex), waking and switching threads"
    assert native.component(second[1]) == "interpreter"
    assert native.component(third[1]) == "cffi, ctypes"


@pytest.mark.parametrize(
    ("function", "where", "expected"),
    [
        ("take_gil", "/usr/bin/python3.11", "interpreter: its lock (GIL)"),
        ("gc_collect_main", "/v/lib/libpython3.11.so.1.0", "interpreter: garbage collection"),
        ("pn_link_send", "/v/lib/python3.11/site-packages/cproton_ffi.abi3.so", "proton (C)"),
        ("pump", "/v/amqp1_driver/engine/_speedups.cpython-311.so", "the driver's module in C"),
        ("sem_post@GLIBC_2.2.5", "/lib/libc.so.6", "C library: locks"),
        ("malloc", "/lib/libc.so.6", "C library: memory, strings"),
        ("tcp_sendmsg", "[kernel.kallsyms]", "kernel: sockets"),
        ("asm_sysvec_reschedule_ipi", "[kernel.kallsyms]", "kernel: switching threads otherwise"),
        ("clear_page", "[kernel.kallsyms]", "kernel: entry and exit, interrupts, other"),
        ("inflate", "/lib/libz.so.1", "other libraries"),
    ],
)
def test_components(function: str, where: str, expected: str) -> None:
    assert native.component([(function, where)]) == expected
    assert expected in native.COMPONENTS


def test_without_perf_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(OSError, match=r"^perf is not installed$"):
        native.Perf(tmp_path / "perf.data")


def test_perf_that_may_not_is_told_in_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusing = tmp_path / "perf"
    refusing.write_text("#!/bin/sh\necho 'No permission to see all.' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(native, "command", lambda: str(refusing))
    with pytest.raises(OSError, match=r"^perf: No permission to see all\.$"):
        native.Perf(tmp_path / "perf.data")


@pytest.mark.parametrize("found", [None, "nowhere/perf"], ids=["missing", "not to be started"])
def test_perf_that_does_not_start_leaves_no_pipe(
    found: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: found)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="perf"):
        native.Perf(tmp_path / "perf.data")
    assert os.listdir("/proc/self/fd") == before


def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A perf that closes its pipes of control and does not end; little patience with it."""
    path = folder / "perf"
    path.write_text(
        f"#!{sys.executable}\nimport os, signal\nos.closerange(3, 256)\nsignal.pause()\n"
    )
    path.chmod(0o755)
    monkeypatch.setattr(native, "command", lambda: str(path))
    monkeypatch.setattr(native, "_SECONDS", 0.05)


def test_perf_that_hangs_is_killed_and_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hanging(tmp_path, monkeypatch)
    with pytest.raises(OSError, match=r"^perf: it answers nothing, and did not end in 0\.05 s$"):
        native.Perf(tmp_path / "perf.data")


def test_perf_that_hangs_while_it_reads_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hanging(tmp_path, monkeypatch)
    with pytest.raises(OSError, match=r"^perf script did not end in 0\.2 s$"):
        native.read(tmp_path / "perf.data", [1])


class Runs:
    """Stands for ``measure``: results in turn, and samples for those that record."""

    def __init__(self, *results: Any) -> None:
        self._results = list(results)

    def __call__(self, *args: Any) -> dict[str, Any]:
        recorder: Recorder | None = args[-1]
        if recorder is not None:
            recorder._folder.mkdir(parents=True, exist_ok=True)
            for role in ("client", "server"):
                recorder._stacks(role).write_text(DUMP)
                recorder.recordings[role] = Recording(system=0.5)
        result = self._results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return {"about": {"driver": "D"}, **result}


def profile(folder: Path, runs: Runs, rounds: int = 1) -> Profile:
    entry = Entry("ours", "amqp://h/", "python")
    return Profile(
        [entry], [Scenario("call")], rounds, Place(), Limits(), folder, False, "a bus", runs
    )


def test_a_profile_has_tables_files_and_what_sampling_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = profile(tmp_path, Runs(run(100, client=20.0), run(90, client=21.0)))
    document = made.play()
    (entry,) = document["scenarios"][0]["entries"]
    client = entry["roles"]["client"]
    assert (client["samples"], client["layers"]["oslo.messaging"]) == (3, 2 / 3)
    text = capsys.readouterr().out
    assert "100 messages/s, while sampled 90 (-10.0 %)" in text
    assert "25.0 us a message, while sampled 26.0 (+4.0 %); 3 + 3 samples" in text
    shares = [line.split() for line in text.splitlines() if line.startswith("oslo.messaging ")]
    assert shares == [["oslo.messaging", "66.7", "%", "13.3", "66.7", "%", "3.33"]]
    assert not made.failed and made.faults == []
    folder = tmp_path / "call-8-threads-100-B-ours"
    assert sorted(path.name for path in folder.iterdir()) == [
        "client.folded",
        "client.svg",
        "server.folded",
        "server.svg",
    ]
    assert json.loads((tmp_path / "profile.json").read_text())["bus"] == "a bus"
    assert "   * - oslo.messaging\n     - 13.3 (66.7 %)\n     - 3.33 (66.7 %)\n" in rst(document)


def test_a_profile_that_is_interrupted_keeps_what_it_has(tmp_path: Path) -> None:
    runs = Runs(run(), run(), KeyboardInterrupt())
    entries = [Entry(label, "amqp://h/", "python") for label in ("ours", "theirs")]
    made = Profile(entries, [Scenario("call")], 1, Place(), Limits(), tmp_path, False, None, runs)
    with pytest.raises(KeyboardInterrupt):
        made.play()
    (scenario,) = json.loads((tmp_path / "profile.json").read_text())["scenarios"]
    assert [entry["label"] for entry in scenario["entries"]] == ["ours"]


def test_rounds_of_a_profile_add_up(tmp_path: Path) -> None:
    made = profile(tmp_path, Runs(*[run() for _ in range(4)]), rounds=2)
    document = made.play()
    assert document["scenarios"][0]["entries"][0]["roles"]["server"]["samples"] == 6


def test_a_profile_that_loses_messages_says_so(tmp_path: Path) -> None:
    made = profile(tmp_path, Runs(run(), run(lost=2)))
    made.play()
    assert made.faults == ["ours (call, 8 threads, 100 B): 2 messages lost"]


def test_a_process_that_a_sample_has_killed_is_sampled_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = Trouble("client-1 was killed by signal 11: it says nothing")
    made = profile(tmp_path, Runs(run(), killed, killed, run()))
    document = made.play()
    assert not made.failed
    assert document["scenarios"][0]["entries"][0]["crashes"] == 2
    assert "sampled again 2 times" in capsys.readouterr().out


def test_six_times_killed_it_is_given_up(tmp_path: Path) -> None:
    killed = Trouble("client-1 was killed by signal 11: it says nothing")
    made = profile(tmp_path, Runs(run(), *[killed] * 6))
    document = made.play()
    assert made.failed
    assert "signal 11" in document["scenarios"][0]["entries"][0]["trouble"]


def test_a_crash_without_samples_is_a_failure_at_once(tmp_path: Path) -> None:
    made = profile(tmp_path, Runs(Trouble("client-1 was killed by signal 11: it says nothing")))
    made.play()
    assert made.failed


def test_a_profile_that_comes_to_nothing_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = profile(tmp_path, Runs(run(), Trouble("server-1 ended")))
    document = made.play()
    assert made.failed and made.faults == []
    assert "server-1 ended" in capsys.readouterr().out
    assert rst(document).startswith(".. Written by amqp1 bench --profile")


def test_a_run_is_sampled_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, tables = tmp_path / "out", tmp_path / "tables.rst"
    arguments = ["--compare", "tcp:", "--count", "20000", "--threads", "4", "--warmup", "0.1"]
    arguments += ["--profile", str(folder), "--no-perf", "--rst", str(tables)]
    assert cli.main(["bench", *arguments]) == 0
    document = json.loads((folder / "profile.json").read_text())
    (entry,) = document["scenarios"][0]["entries"]
    for role in ("client", "server"):
        assert entry["roles"][role]["samples"] > 0
        assert "the benchmark itself" in entry["roles"][role]["layers"]
        assert (folder / "call-4-threads-100-B-tcp" / f"{role}.svg").exists()
    assert (entry["plain"]["lost"], entry["sampled"]["lost"]) == (0, 0)
    assert "the benchmark itself" in tables.read_text()
    assert "client: function, its line with the most" in capsys.readouterr().out
