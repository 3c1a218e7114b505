# SPDX-License-Identifier: Apache-2.0
"""Steps of the scenario with networks, ports and security groups."""

from __future__ import annotations

from tests.cloud import servers
from tests.cloud.scenario import StepError, World


def network(world: World) -> None:
    """Create a network with a subnet and a router, and let in SSH."""
    api = world.api.network
    world.network = api.create_network(name="servers").id
    subnet = api.create_subnet(network_id=world.network, ip_version=4, cidr="10.1.0.0/16")
    router = api.create_router(name="router")
    api.add_interface_to_router(router, subnet_id=subnet.id)
    group = next(iter(api.security_groups(name="default")))
    api.create_security_group_rule(
        security_group_id=group.id,
        direction="ingress",
        protocol="tcp",
        port_range_min=22,
        port_range_max=22,
    )


def agents(world: World) -> None:
    """See an L2 agent alive on each host."""
    hosts = world.cloud.layout.hosts()
    world.wait(
        "an agent alive on each host",
        lambda: sorted(a.host for a in world.api.network.agents() if a.is_alive) == sorted(hosts),
    )


def ports(world: World) -> None:
    """See each server's port active: its agent has told Neutron, and Neutron Nova."""
    for server in world.servers:
        world.wait(f"port of server {server} active", lambda s=server: _active(world, s))


def _active(world: World, server: str) -> bool:
    found = list(world.api.network.ports(device_id=server))
    return bool(found) and all(port.status == "ACTIVE" for port in found)


def interface(world: World) -> None:
    """Attach a second port to a server, rename it, and take it away."""
    api, server = world.api.network, servers.first(world)
    port = api.create_port(network_id=world.network, name="second")
    world.api.compute.create_server_interface(server, port_id=port.id)
    world.wait("second port active", lambda: api.get_port(port.id).status == "ACTIVE")
    api.update_port(port.id, name="renamed")
    world.api.compute.delete_server_interface(port.id, server=server)
    world.wait("second port gone", lambda: len(list(api.ports(device_id=server))) == 1)
    if api.find_port(port.id) is not None:
        api.delete_port(port.id)


def clean(world: World) -> None:
    """Delete the network with all that is on it."""
    api = world.api.network
    for router in api.routers():
        for port in api.ports(device_id=router.id):
            api.remove_interface_from_router(router, port_id=port.id)
        api.delete_router(router)
    left = [
        p.id for p in api.ports(network_id=world.network) if p.device_owner.startswith("compute")
    ]
    if left:
        raise StepError(f"ports of servers that are gone: {left}")
    api.delete_network(world.network)


#: after the servers are there
STEPS = (agents, ports, interface)
