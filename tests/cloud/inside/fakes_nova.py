# SPDX-License-Identifier: Apache-2.0
"""A hypervisor that runs nothing: Nova's own, made fit for many hosts in many processes.

Nova loads it as ``nova.virt.cloud.Hypervisor``.
"""

import os
import pathlib

from nova.virt import fake

#: where a host's interfaces are told to the L2 agent: a folder for each host, a file for each port
_PORTS = pathlib.Path(os.environ.get("CLOUD_PORTS", "/nonexistent"))


class Hypervisor(fake.FakeDriverWithoutFakeNodes):
    """Nova's fake driver was written for one process that holds all hosts."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._images = set()

    def cache_image(self, context, image_id):
        """Return whether the image was not there yet."""
        new = image_id not in self._images
        self._images.add(image_id)
        return new

    def _forget(self, instance):
        """Let go of what this host still keeps of a server that lives on another by now."""
        if instance.uuid in self.instances:
            super().destroy(None, instance, None)

    def spawn(self, context, instance, *arguments, network_info=None, **options):
        """Start a server, one that has been here before too."""
        self._forget(instance)
        super().spawn(context, instance, *arguments, network_info=network_info, **options)
        self.plug_vifs(instance, network_info)

    def pre_live_migration(
        self, context, instance, block_device_info, network_info, disk_info, migrate_data
    ):
        """Show the interfaces of a server that is to come: its old host waits for them."""
        self.plug_vifs(instance, network_info)
        return migrate_data

    def post_live_migration_at_source(self, context, instance, network_info):
        """Let go of a server that has gone to another host."""
        self._forget(instance)
        self.unplug_vifs(instance, network_info)

    def plug_vifs(self, instance, network_info):
        """Show the server's interfaces to the L2 agent."""
        for vif in network_info or ():
            folder = _PORTS / self._host
            folder.mkdir(parents=True, exist_ok=True)
            (folder / vif["id"]).touch()

    def unplug_vifs(self, instance, network_info):
        """Take the server's interfaces away from the L2 agent."""
        for vif in network_info or ():
            (_PORTS / self._host / vif["id"]).unlink(missing_ok=True)

    def attach_interface(self, context, instance, image_meta, vif):
        """Add an interface to a server."""
        super().attach_interface(context, instance, image_meta, vif)
        self.plug_vifs(instance, [vif])

    def detach_interface(self, context, instance, vif):
        """Remove an interface from a server."""
        super().detach_interface(context, instance, vif)
        self.unplug_vifs(instance, [vif])

    def destroy(self, context, instance, network_info, *arguments, **options):
        """End a server; one that was started by an earlier process is ended already."""
        self.unplug_vifs(instance, network_info)
        if instance.uuid in self.instances:
            super().destroy(context, instance, network_info, *arguments, **options)
