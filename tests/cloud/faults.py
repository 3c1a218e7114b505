# SPDX-License-Identifier: Apache-2.0
"""Steps of the scenario in which something goes down and comes back."""

from __future__ import annotations

import threading
import time

from tests.cloud import servers
from tests.cloud.scenario import StepError, World

#: seconds without a bus
_DOWN = 5.0
#: seconds after its return in which every service has to be up again
_BACK = 90.0
#: seconds after its return in which a server has to run: rabbit's driver loses replies, and two
#: calls in a row may wait for their timeouts
_BOOTED = 300.0
#: seconds after which Nova takes a silent host for down, and some more
_NOTICED = 60.0


def evacuate(world: World) -> None:
    """Kill a host with all its servers, evacuate them, and bring it back."""
    compute = world.api.compute
    found = list(compute.servers())
    host = servers.host_of(next(s for s in found if s.id == servers.first(world)))
    moved = [server.id for server in found if servers.host_of(server) == host]
    with world.outage():
        _evacuate(world, host, moved)


def _evacuate(world: World, host: str, moved: list[str]) -> None:
    compute = world.api.compute
    process = world.cloud.processes[f"nova-{host}"]
    process.kill()
    service = next(s for s in compute.services(host=host, binary="nova-compute"))
    compute.update_service_forced_down(service, host, "nova-compute", True)
    world.wait("host seen down", lambda: _state(world, host) == "down", _NOTICED)
    for server in moved:
        compute.evacuate_server(server)
    # from microversion 2.95 on they are not started on their new host
    servers.wait_active(world, *moved, status="SHUTOFF")
    for server in moved:
        compute.start_server(server)
    servers.wait_active(world, *moved)
    still = [s.id for s in compute.servers() if s.id in moved and servers.host_of(s) == host]
    if still:
        raise StepError(f"still on {host}: {still}")
    world.remark(f"{len(moved)} servers left {host}")
    process.start()
    process.wait_ready(time.monotonic() + _NOTICED)
    # a host may not be up again before it has cleaned up after the servers that were moved
    world.wait("its migrations ended", lambda: not _migrating(world, host), _NOTICED)
    compute.update_service_forced_down(service, host, "nova-compute", False)
    world.wait("host up again", lambda: _state(world, host) == "up", _NOTICED)


def _state(world: World, host: str) -> str:
    found = next(s for s in world.api.compute.services(host=host, binary="nova-compute"))
    return str(found.state)


def _migrating(world: World, host: str) -> bool:
    found = world.api.compute.migrations(host=host, status="done")
    return any(m.migration_type == "evacuation" and m.source_compute == host for m in found)


class _Probe:
    """Asks for a server's console once a second: an HTTP request, then a call to its host."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._end = threading.Event()
        self.good: list[float] = []
        self.bad: list[str] = []
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        server = servers.first(self._world)
        while not self._end.wait(1.0):
            since = time.monotonic()
            try:
                self._world.api.compute.get_server_console_output(server)
                self.good.append(time.monotonic())
            except Exception as e:
                self.bad.append(f"after {time.monotonic() - since:.1f} s: {e}")

    def close(self) -> None:
        self._end.set()
        self._thread.join(120)


def restart_bus(world: World) -> None:
    """Restart the bus while servers are booted and asked for."""
    probe = _Probe(world)
    try:
        with world.outage():
            _restart_bus(world, probe)
    finally:
        probe.close()
    world.remark(f"of {len(probe.good) + len(probe.bad)} probes {len(probe.bad)} failed")
    for failure in probe.bad[:3]:
        world.remark(failure)


def _restart_bus(world: World, probe: _Probe) -> None:
    before = [servers.boot(world, f"before-{number}") for number in range(2)]
    world.cloud.bus.kill()
    time.sleep(_DOWN)
    world.cloud.bus.start()
    back = time.monotonic()
    after = [servers.boot(world, f"after-{n}") for n in range(world.cloud.layout.computes)]
    servers.wait_active(world, *after, seconds=_BOOTED)
    world.remark(f"servers active {time.monotonic() - back:.1f} s after its return")
    world.cloud.wait_up(back + _BACK)
    world.remark(f"all services up {time.monotonic() - back:.1f} s after its return")
    world.wait("a probe", lambda: any(when > back for when in probe.good), _BACK)
    answered = min(when for when in probe.good if when > back) - back
    world.remark(f"first answer to a probe {answered:.1f} s after its return")
    # a request whose outcome the lost connection took along is not sent again: it may have run
    lost = [s for s in before if world.api.compute.get_server(s).status == "ERROR"]
    world.remark(f"of {len(before)} servers under way when it went down {len(lost)} failed")


#: in the order in which they are taken
STEPS = (evacuate,)
