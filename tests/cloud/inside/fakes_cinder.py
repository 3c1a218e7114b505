# SPDX-License-Identifier: Apache-2.0
"""A back end whose volumes exist in Cinder's database only.

Cinder loads it as ``fakes_cinder.Backend``.
"""

from cinder.volume import driver


class Backend(driver.VolumeDriver):
    """Everything succeeds at once."""

    VERSION = "1.0"

    def check_for_setup_error(self):
        """Do nothing."""

    def get_volume_stats(self, refresh=False):
        """Return what the scheduler wants to know."""
        return {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name"),
            "vendor_name": "none",
            "driver_version": self.VERSION,
            "storage_protocol": "none",
            "total_capacity_gb": "infinite",
            "free_capacity_gb": "infinite",
            "reserved_percentage": 0,
        }

    def create_volume(self, volume):
        """Do nothing."""

    def create_volume_from_snapshot(self, volume, snapshot):
        """Do nothing."""

    def create_cloned_volume(self, volume, src_vref):
        """Do nothing."""

    def delete_volume(self, volume):
        """Do nothing."""

    def extend_volume(self, volume, new_size):
        """Do nothing."""

    def create_snapshot(self, snapshot):
        """Do nothing."""

    def delete_snapshot(self, snapshot):
        """Do nothing."""

    def ensure_export(self, context, volume):
        """Do nothing."""

    def create_export(self, context, volume, connector):
        """Do nothing."""

    def remove_export(self, context, volume):
        """Do nothing."""

    def initialize_connection(self, volume, connector):
        """Return what the hypervisor gets to know."""
        return {"driver_volume_type": "none", "data": {"volume_id": volume["id"]}}

    def terminate_connection(self, volume, connector, **kwargs):
        """Do nothing."""

    def retype(self, context, volume, new_type, diff, host):
        """Say that the volume is of the new type now."""
        return True, None
