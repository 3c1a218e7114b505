# SPDX-License-Identifier: Apache-2.0
"""Steps of the scenario with images, flavors and servers."""

from __future__ import annotations

from typing import Any

from tests.cloud.scenario import StepError, World

#: servers for each host
_PER_HOST = 2


def image(world: World) -> None:
    """Upload an image."""
    found = world.api.image.create_image(
        name="cirros",
        data=b"an image" * 1024,
        disk_format="raw",
        container_format="bare",
        visibility="public",
    )
    world.image = found.id
    world.wait("image active", lambda: world.api.image.get_image(found.id).status == "active")


def flavors(world: World) -> None:
    """Create two flavors."""
    compute = world.api.compute
    world.small = compute.create_flavor(name="small", ram=256, vcpus=1, disk=1).id
    world.large = compute.create_flavor(name="large", ram=512, vcpus=2, disk=2).id


def boot(world: World, name: str, host: str | None = None) -> str:
    """Boot one server, on a host if one is named; return its id without waiting."""
    server = world.api.compute.create_server(
        name=name,
        image_id=world.image,
        flavor_id=world.small,
        networks=[{"uuid": world.network}] if world.network else "none",
        **({"availability_zone": f"nova:{host}"} if host else {}),
    )
    return str(server.id)


def wait_active(world: World, *servers: str, status: str = "ACTIVE", seconds: float = 120) -> None:
    """Return when all these servers have that status and nothing is under way."""
    for server in servers:
        world.wait(f"server {server} {status}", lambda s=server: settled(world, s, status), seconds)


def settled(world: World, server: str, status: str) -> bool:
    """Return whether a server has that status and nothing is under way.

    :raises StepError: it is in error
    """
    found = world.api.compute.get_server(server)
    if found.status == "ERROR" and status != "ERROR":
        raise StepError(f"server {found.name} on {host_of(found)} is in error: {found.fault}")
    return found.status == status and found.task_state is None


def host_of(server: Any) -> str:
    """Return the host that a server is on."""
    return str(server.compute_host or server.hypervisor_hostname)


def first(world: World) -> str:
    """Return the server that single steps are taken with."""
    return world.servers[0]


def boot_all(world: World) -> None:
    """Boot two servers for each host at once."""
    count = _PER_HOST * world.cloud.layout.computes
    world.servers = [boot(world, f"server-{number}") for number in range(count)]
    wait_active(world, *world.servers)
    hosts = {host_of(world.api.compute.get_server(server)) for server in world.servers}
    world.remark(f"{count} servers on {len(hosts)} hosts")


def list_all(world: World) -> None:
    """List servers, hosts and services."""
    found = {server.id for server in world.api.compute.servers()}
    if not found.issuperset(world.servers):
        raise StepError(f"servers missing in the list: {set(world.servers) - found}")
    hosts = [hypervisor.name for hypervisor in world.api.compute.hypervisors()]
    if sorted(hosts) != sorted(world.cloud.layout.hosts()):
        raise StepError(f"hypervisors are {hosts}")


def stop_and_start(world: World) -> None:
    """Stop and start a server."""
    world.api.compute.stop_server(first(world))
    wait_active(world, first(world), status="SHUTOFF")
    world.api.compute.start_server(first(world))
    wait_active(world, first(world))


def reboot(world: World) -> None:
    """Reboot a server, soft and hard."""
    for kind in ("SOFT", "HARD"):
        world.api.compute.reboot_server(first(world), kind)
        wait_active(world, first(world))


def pause_and_suspend(world: World) -> None:
    """Pause, unpause, suspend and resume a server."""
    compute = world.api.compute
    compute.pause_server(first(world))
    wait_active(world, first(world), status="PAUSED")
    compute.unpause_server(first(world))
    wait_active(world, first(world))
    compute.suspend_server(first(world))
    wait_active(world, first(world), status="SUSPENDED")
    compute.resume_server(first(world))
    wait_active(world, first(world))


def console(world: World) -> None:
    """Fetch console output, diagnostics and a VNC console: calls to one host each."""
    compute = world.api.compute
    output = compute.get_server_console_output(first(world))
    if "FAKE CONSOLE OUTPUT" not in str(output):
        raise StepError(f"console output is {output}")
    diagnostics = compute.get_server_diagnostics(first(world))
    if diagnostics.state != "running":
        raise StepError(f"diagnostics say {diagnostics.state}")
    found = compute.create_console(first(world), console_type="novnc")
    if not found["url"].startswith("http"):
        raise StepError(f"console is {found}")


def rebuild(world: World) -> None:
    """Rebuild a server."""
    world.api.compute.rebuild_server(first(world), image=world.image)
    wait_active(world, first(world))


def rescue(world: World) -> None:
    """Rescue and unrescue a server."""
    world.api.compute.rescue_server(first(world))
    wait_active(world, first(world), status="RESCUE")
    world.api.compute.unrescue_server(first(world))
    wait_active(world, first(world))


def snapshot(world: World) -> None:
    """Make an image of a server."""
    found = world.api.compute.create_server_image(first(world), name="snapshot", wait=False)
    wait_active(world, first(world))
    world.api.image.delete_image(found.id)


def shelve(world: World) -> None:
    """Shelve, offload and unshelve a server."""
    compute = world.api.compute
    compute.shelve_server(first(world))
    wait_active(world, first(world), status="SHELVED_OFFLOADED")
    compute.unshelve_server(first(world))
    wait_active(world, first(world))


def resize(world: World) -> None:
    """Resize a server and confirm it, resize it back and revert that."""
    compute = world.api.compute
    compute.resize_server(first(world), world.large)
    wait_active(world, first(world), status="VERIFY_RESIZE")
    compute.confirm_server_resize(first(world))
    wait_active(world, first(world))
    compute.resize_server(first(world), world.small)
    wait_active(world, first(world), status="VERIFY_RESIZE")
    compute.revert_server_resize(first(world))
    wait_active(world, first(world))
    flavor = compute.get_server(first(world)).flavor["original_name"]
    if flavor != "large":
        raise StepError(f"after the revert the flavor is {flavor}")


def migrate(world: World) -> None:
    """Migrate a server to another host and confirm it."""
    before = host_of(world.api.compute.get_server(first(world)))
    world.api.compute.migrate_server(first(world))
    wait_active(world, first(world), status="VERIFY_RESIZE")
    world.api.compute.confirm_server_resize(first(world))
    wait_active(world, first(world))
    _moved(world, before)


def live_migrate(world: World) -> None:
    """Migrate a server to another host while it runs, and back."""
    for _ in range(2):
        before = host_of(world.api.compute.get_server(first(world)))
        world.api.compute.live_migrate_server(first(world), host=None, block_migration="auto")
        world.wait(
            "server on another host",
            lambda b=before: (
                settled(world, first(world), "ACTIVE")
                and host_of(world.api.compute.get_server(first(world))) != b
            ),
        )


def _moved(world: World, before: str) -> None:
    after = host_of(world.api.compute.get_server(first(world)))
    if after == before:
        raise StepError(f"the server is still on {before}")
    world.remark(f"from {before} to {after}")


def aggregates(world: World) -> None:
    """Put all hosts into an aggregate and have them fetch an image: a fanout."""
    compute = world.api.compute
    aggregate = compute.create_aggregate(name="all", availability_zone=None)
    for host in world.cloud.layout.hosts():
        compute.add_host_to_aggregate(aggregate, host)
    compute.aggregate_precache_images(aggregate, [world.image])
    for host in world.cloud.layout.hosts():
        compute.remove_host_from_aggregate(aggregate, host)
    compute.delete_aggregate(aggregate)


def services(world: World) -> None:
    """Disable and enable the service of a host."""
    compute = world.api.compute
    host = world.cloud.layout.host(1)
    service = next(s for s in compute.services(host=host, binary="nova-compute"))
    compute.disable_service(service, disabled_reason="scenario")
    found = next(s for s in compute.services(host=host, binary="nova-compute"))
    if found.status != "disabled":
        raise StepError(f"{host} is {found.status}")
    compute.enable_service(service)


def delete_all(world: World) -> None:
    """Delete all servers; nothing of them is left in Placement."""
    for server in list(world.api.compute.servers()):
        world.api.compute.delete_server(server.id)
    world.wait("all servers gone", lambda: not list(world.api.compute.servers()), 120)
    world.servers = []
    for provider in world.api.placement.resource_providers():
        found = world.api.placement.get(f"/resource_providers/{provider.id}/allocations").json()
        if found["allocations"]:
            raise StepError(f"allocations left on {provider.name}: {found['allocations']}")


#: all else needs what these make
FIRST = (image, flavors, boot_all)
SHORT = (list_all, stop_and_start, console, rebuild, live_migrate, aggregates, services)
STEPS = (
    list_all,
    stop_and_start,
    reboot,
    pause_and_suspend,
    console,
    rebuild,
    rescue,
    snapshot,
    shelve,
    resize,
    migrate,
    live_migrate,
    aggregates,
    services,
)
