# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Samples one client and one server of a run while it is measured."""

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
    """What one process did.

    :param stacks: Python's, in samples
    :param components: below Python, in samples of perf's
    :param system: the kernel's share of the processor time
    """

    stacks: Counter[Stack] = field(default_factory=Counter)
    components: Counter[str] = field(default_factory=Counter)
    system: float = 0.0


class Recorder:
    """Of one run. The thread of its crew.

    :param folder: for the files of this run
    :param perf: to ask Linux's perf too
    """

    def __init__(self, folder: Path, perf: bool) -> None:
        self._folder = folder
        self._perf = perf
        self._native: native.Perf | None = None
        self._sampled: list[tuple[str, Worker]] = []
        self.recordings: dict[str, Recording] = {}
        #: why perf tells nothing
        self.missing = ""

    def begin(self, crew: Crew, clients: Sequence[Worker], servers: Sequence[Worker]) -> None:
        """The run begins: sample the first of either."""
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
        """The run is over."""
        self.close()
        for _, worker in self._sampled:
            worker.tell(do="sampled")
        used = crew.wait("sampled", [worker for _, worker in self._sampled], _SECONDS)
        for (role, _), times in zip(self._sampled, used, strict=True):
            whole = times["user_us"] + times["system_us"]
            self.recordings[role] = Recording(system=times["system_us"] / whole if whole else 0.0)

    def close(self) -> None:
        """Whatever became of the run, perf ends. Idempotent."""
        if self._native is not None:
            self._native.stop()

    def read(self) -> None:
        """Fill in the recordings; takes a second or two, so not while something is measured."""
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
            (self._folder / _PERF).unlink(missing_ok=True)  # of the whole machine: not to be kept
        for role, pid in pids.items():
            self.recordings[role].components = components[pid]

    def _stacks(self, role: str) -> Path:
        return self._folder / f"{role}.stacks"
