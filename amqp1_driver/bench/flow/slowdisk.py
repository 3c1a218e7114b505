# SPDX-License-Identifier: Apache-2.0

"""A simulation of a disk that is slow to make data durable. Main thread.

A quorum queue confirms a message after ``fdatasync``; a classic queue does not sync at all. On the
disk of a developer's machine ``fdatasync`` is often too fast to make a difference. Therefore the
benchmark starts the broker with a preloaded library (``LD_PRELOAD``), which waits before each
``fsync`` and ``fdatasync`` and then performs it. The broker itself is unchanged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from amqp1_driver.bench.children import Trouble

SOURCE = """\
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(void)
{
    const char *text = getenv("AMQP1_BENCH_FSYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};

    while (us > 0 && nanosleep(&left, &left)) {
    }
}

int fsync(int fd)
{
    delay();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    delay();
    return (int)syscall(SYS_fdatasync, fd);
}
"""
_COMPILE_SECONDS = 60.0


@contextlib.contextmanager
def slowed(milliseconds: float) -> Iterator[dict[str, str]]:
    """Compile the library, and yield the environment variables that preload it into a process.

    :param milliseconds: delay before each ``fsync`` and ``fdatasync``; 0: there is no library, and
        the environment is empty
    :raises Trouble: there is no C compiler, or it fails
    """
    if not milliseconds:
        yield {}
        return
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Trouble("a slow fsync needs a C compiler (cc); --fsync 0 takes the disk as it is")
    with tempfile.TemporaryDirectory(prefix="amqp1-bench-") as folder:
        source, library = Path(folder, "slowdisk.c"), Path(folder, "slowdisk.so")
        source.write_text(SOURCE)
        try:
            subprocess.run(
                [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)],
                check=True,
                capture_output=True,
                text=True,
                timeout=_COMPILE_SECONDS,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{compiler}: {getattr(error, 'stderr', '') or error}") from error
        before = os.environ.get("LD_PRELOAD")
        preload = f"{library}:{before}" if before else str(library)
        yield {"LD_PRELOAD": preload, "AMQP1_BENCH_FSYNC_US": str(round(milliseconds * 1000))}


def fdatasync_us(folder: str | None = None, times: int = 50) -> float:
    """Measure how long ``fdatasync`` takes on the disk itself, after a write of 4 KiB.

    :param folder: a folder on the disk; None: the default folder for temporary files
    :returns: the median, microseconds
    """
    found = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            since = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - since) * 1e6)
    return statistics.median(found)
