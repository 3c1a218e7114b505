# SPDX-License-Identifier: Apache-2.0

"""Sampling of one client and one server during a measured run; lives on the crew's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from amqp1_driver.bench.children import Crew, Worker
from amqp1_driver.bench.profile import native, samples
from amqp1_driver.bench.profile.samples import Stack

_SECONDS = 30.0
_PERF = "perf.data"


@dataclass
class Recording:
    """The samples of one process.

    :param stacks: number of samples of each Python stack
    :param components: number of perf's samples in each component below Python
    :param system: the kernel's share of the processor time, 0 to 1
    """

    stacks: Counter[Stack] = field(default_factory=Counter)
    components: Counter[str] = field(default_factory=Counter)
    system: float = 0.0


class Recorder:
    """A recorder of the samples of one run. Used on the thread of the crew.

    :param folder: folder for the files of this run
    :param perf: record with Linux's perf, too
    """

    def __init__(self, folder: Path, perf: bool) -> None:
        self._folder = folder
        self._perf = perf
        self._native: native.Perf | None = None
        self._sampled: list[tuple[str, Worker]] = []
        self.recordings: dict[str, Recording] = {}
        #: why there are no samples of perf; empty: there are some, or none are wanted
        self.missing = ""

    def begin(self, crew: Crew, clients: Sequence[Worker], servers: Sequence[Worker]) -> None:
        """Start to sample the first client and the first server, at the beginning of the run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        parts = (("client", clients), ("server", servers))
        self._sampled = [(role, workers[0]) for role, workers in parts if workers]
        for role, worker in self._sampled:
            worker.tell(do="sample", path=str(self._stacks(role).absolute()))
        crew.wait("sampling", [worker for _, worker in self._sampled], _SECONDS)
        if self._perf:
            try:
                self._native = native.Perf(self._folder / _PERF)
            except OSError as error:
                self.missing = str(error)

    def end(self, crew: Crew) -> None:
        """Stop sampling at the end of the run, and compute the kernel's share of processor time."""
        self.close()
        for _, worker in self._sampled:
            worker.tell(do="sampled")
        used = crew.wait("sampled", [worker for _, worker in self._sampled], _SECONDS)
        for (role, _), times in zip(self._sampled, used, strict=True):
            whole = times["user_us"] + times["system_us"]
            self.recordings[role] = Recording(system=times["system_us"] / whole if whole else 0.0)

    def close(self) -> None:
        """Stop perf, also after a run that failed. Idempotent."""
        if self._native is not None:
            self._native.stop()

    def read(self) -> None:
        """Fill in the recordings from the files of samples, and delete these files.

        This takes a second or two: never call it while something is measured.
        """
        for role, recording in self.recordings.items():
            with self._stacks(role).open(encoding="utf-8", errors="replace") as file:
                recording.stacks = samples.parse(file)
            self._stacks(role).unlink()
        if self._native is None:
            return
        pids = {role: worker.process.pid for role, worker in self._sampled}
        try:
            components = native.read(self._folder / _PERF, list(pids.values()))
        except OSError as error:
            self.missing = str(error)
            return
        finally:
            # this file covers the whole machine, so it must not stay
            (self._folder / _PERF).unlink(missing_ok=True)
        for role, pid in pids.items():
            self.recordings[role].components = components[pid]

    def _stacks(self, role: str) -> Path:
        return self._folder / f"{role}.stacks"
