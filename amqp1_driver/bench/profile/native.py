# SPDX-License-Identifier: Apache-2.0

"""The processor time below Python, by Linux's perf, where it is installed and permitted.

Main thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

#: arguments of perf: sample the whole machine 249 times a second, with stacks; the recording is
#: disabled until the command "enable"
_RECORD = ["record", "-q", "-a", "-e", "cpu-clock", "-F", "249", "-g", "-D", "-1"]
_SECONDS = 30.0

#: pattern of kernel functions on a sample's stack -> component; the first match counts
_KERNEL = (
    ("futex", "kernel: locks (futex), waking and switching threads"),
    ("ep_poll|epoll|do_select|do_poll", "kernel: epoll, poll"),
    ("tcp_|inet_|sock_|__sys_sendto|__sys_recvfrom|sys_send|sys_recv|unix_", "kernel: sockets"),
    ("eventfd|pipe_|ksys_write|ksys_read|vfs_", "kernel: eventfd, pipes, files"),
    ("nanosleep", "kernel: sleep"),
    ("__schedule|reschedule_ipi", "kernel: switching threads otherwise"),
    ("page_fault|exc_page|mmap|munmap|madvise|brk", "kernel: memory"),
)
_PYTHON = r"libpython3|bin/python3"
#: patterns of the object and function of a sample in user space -> component
_USER = (
    (r"cproton|qpid-proton", r"", "proton (C)"),
    (r"amqp1_driver/engine/_speedups", r"", "the driver's module in C"),
    (r"_cffi|_ctypes|libffi", r"", "cffi, ctypes"),
    (r"/_json\.", r"", "json (C)"),
    (r"/lib(c|pthread)[.-]", r"pthread|sem_|futex|lll_lock", "C library: locks"),
    (r"/lib(c|pthread)[.-]", r"", "C library: memory, strings"),
    (r"vdso", r"", "clock (vdso)"),
    (r"libssl|libcrypto|/_ssl\.", r"", "TLS"),
    (
        _PYTHON,
        r"take_gil|drop_gil|PyThread_\w*lock|PyEval_\w+Thread$",
        "interpreter: its lock (GIL)",
    ),
    (
        _PYTHON,
        r"gc_|visit_|_PyGC|subtract_refs|update_refs|deduce_unreach",
        "interpreter: garbage collection",
    ),
    (_PYTHON, r"", "interpreter"),
)
_OTHER_KERNEL, _OTHER = "kernel: entry and exit, interrupts, other", "other libraries"
COMPONENTS = tuple(
    dict.fromkeys(
        [*(name for *_, name in _USER), _OTHER, *(name for _, name in _KERNEL), _OTHER_KERNEL]
    )
)
_KERNEL_RULES = [(re.compile(words), name) for words, name in _KERNEL]
_USER_RULES = [(re.compile(object_), re.compile(words), name) for object_, words, name in _USER]
_FRAME = re.compile(r"^\s*[0-9a-f]+ (.*) \((.*)\)$")


class Perf:
    """A recording of the whole machine by perf; the constructor starts it.

    perf is not attached to a process: attached, it would do work at each switch between the
    threads of the process, and its samples would show this work as the work of the process.

    :raises OSError: perf is not installed, or not permitted; the text gives the reason
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        program = command()
        control, self._control = os.pipe()
        self._answer, answer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [program, *_RECORD, f"--control=fd:{control},{answer}", "-o", str(path)],
                pass_fds=(control, answer),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError:
            os.close(self._control)
            os.close(self._answer)
            raise
        finally:
            os.close(control)
            os.close(answer)
        try:
            self._tell("enable")
        except OSError:
            self.stop()
            raise

    def _tell(self, word: str) -> None:
        """Send a command, and return when perf has answered.

        :raises OSError: perf has ended; the text has the last line of its standard error
        """
        with contextlib.suppress(BrokenPipeError):  # perf has ended: there is no answer
            os.write(self._control, f"{word}\n".encode())
        if not os.read(self._answer, 64):
            raise OSError(f"perf: {self._last_words()}")

    def _last_words(self) -> str:
        try:
            _, words = self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return f"it answers nothing, and did not end in {_SECONDS:g} s"
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        return lines[-1] if lines else f"ended with status {self._process.returncode}"

    def stop(self) -> None:
        """Stop recording, and wait until perf has written its file. Idempotent."""
        if self._control < 0:
            return
        try:
            if self._process.poll() is None:
                self._tell("stop")
        except OSError:
            pass  # perf has ended before
        finally:
            os.close(self._control)
            os.close(self._answer)
            self._control = -1
        try:
            self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def command() -> str:
    """Return the path of perf.

    :raises OSError: perf is not installed
    """
    found = shutil.which("perf")
    if found is None:
        raise OSError("perf is not installed")
    return found


def read(path: Path, pids: Sequence[int]) -> dict[int, Counter[str]]:
    """Count the samples of each process by component.

    :raises OSError: perf is not installed, or cannot read the recording
    """
    only = f"--pid={','.join(map(str, pids))}"
    try:
        done = subprocess.run(
            [command(), "script", "-i", str(path), only, "-F", "pid,ip,sym,dso"],
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=4 * _SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"perf script did not end in {4 * _SECONDS:g} s") from None
    if done.returncode:
        raise OSError(f"perf script: {done.stderr.strip()[-200:]}")
    found: dict[int, Counter[str]] = {pid: Counter() for pid in pids}
    for pid, frames in samples(done.stdout.splitlines()):
        if pid in found:
            found[pid][component(frames)] += 1
    return found


def samples(lines: Iterable[str]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield the process id and the frames (function, object) of each sample, innermost first."""
    pid, frames = 0, list[tuple[str, str]]()
    for line in [*lines, ""]:
        found = _FRAME.match(line)
        if found:
            frames.append((found[1].strip(), found[2]))
        elif line.strip().isdecimal():
            pid = int(line)
        elif not line.strip() and frames:
            yield pid, frames
            frames = []


def component(frames: Sequence[tuple[str, str]]) -> str:
    """Return the component in which the processor was when the sample was taken.

    :param frames: (function, object) of each frame, the innermost first
    """
    function, object_ = frames[0]
    if "kernel" in object_:
        names = " ".join(name for name, where in frames if "kernel" in where)
        return next((name for rule, name in _KERNEL_RULES if rule.search(names)), _OTHER_KERNEL)
    for where, words, name in _USER_RULES:
        if where.search(object_) and words.search(function):
            return name
    return _OTHER
