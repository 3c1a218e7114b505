# SPDX-License-Identifier: Apache-2.0
"""Steps of the scenario with volumes and snapshots."""

from __future__ import annotations

from tests.cloud import servers
from tests.cloud.cinder import BACKENDS
from tests.cloud.scenario import StepError, World


def types(world: World) -> None:
    """Create a volume type for each back end, once the scheduler knows them."""
    for name in BACKENDS:
        kind = world.api.block_storage.create_type(
            name=name, extra_specs={"volume_backend_name": name}
        )
        if not kind.id:
            raise StepError(f"no volume type {name}")
    storage = world.api.block_storage
    world.wait("all back ends known", lambda: len(list(storage.backend_pools())) == len(BACKENDS))


def _wait(world: World, volume: str, status: str = "available") -> None:
    def ready() -> bool:
        found = world.api.block_storage.get_volume(volume)
        if found.status.startswith("error"):
            raise StepError(f"volume {volume} is in status {found.status}")
        return bool(found.status == status)

    world.wait(f"volume {volume} {status}", ready)


def volume(world: World) -> None:
    """Create, extend, snapshot, clone and delete volumes on both back ends."""
    storage = world.api.block_storage
    for name in BACKENDS:
        first = storage.create_volume(name=f"volume-{name}", size=1, volume_type=name).id
        _wait(world, first)
        storage.extend_volume(first, 2)
        _wait(world, first)
        snapshot = storage.create_snapshot(volume_id=first, name="snapshot")
        storage.wait_for_status(snapshot, "available", interval=0.3, wait=60)
        copy = storage.create_volume(name="copy", size=2, snapshot_id=snapshot.id).id
        _wait(world, copy)
        storage.delete_volume(copy)
        storage.delete_snapshot(snapshot)
        world.wait("snapshot gone", lambda i=first: not list(storage.snapshots(volume_id=i)))
        storage.delete_volume(first)
    world.wait("volumes gone", lambda: not list(storage.volumes()))


def attach(world: World) -> None:
    """Attach a volume to a server and take it away."""
    storage, server = world.api.block_storage, servers.first(world)
    found = storage.create_volume(name="attached", size=1).id
    _wait(world, found)
    world.api.compute.create_volume_attachment(server, volume_id=found)
    _wait(world, found, "in-use")
    world.api.compute.delete_volume_attachment(server, found)
    _wait(world, found)
    storage.delete_volume(found)
    world.wait("volume gone", lambda: not list(storage.volumes()))


#: after the servers are there
STEPS = (types, volume, attach)
