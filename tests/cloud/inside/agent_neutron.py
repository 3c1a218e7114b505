# SPDX-License-Identifier: Apache-2.0
"""An L2 agent: Neutron's own loop, with all its requests, on a host without interfaces.

Neutron has to be imported first: it chooses native threads for all that follows.

The hypervisor (fakes_nova.py) shows an interface as a file whose name is the port's id.
"""

import os
import pathlib
import sys

from neutron.api.rpc.handlers import securitygroups_rpc
from neutron.common import config
from neutron.conf.agent import common as agent_config
from neutron.plugins.ml2.drivers.agent import _agent_manager_base as base
from neutron.plugins.ml2.drivers.agent import _common_agent
from neutron.plugins.ml2.drivers.agent import config as agent_options  # noqa: F401 (registers)
from neutron_lib import constants
from neutron_lib.agent import topics
from oslo_config import cfg
from oslo_messaging import Target
from oslo_service import service

_PORTS = pathlib.Path(os.environ["CLOUD_PORTS"])


class Callbacks(
    securitygroups_rpc.SecurityGroupAgentRpcCallbackMixin, base.CommonAgentManagerRpcCallBackBase
):
    """What the server tells all agents."""

    target = Target(version="1.4")

    def network_delete(self, context, **kwargs):
        """Forget a network."""
        self.network_map.pop(kwargs.get("network_id"), None)

    def port_update(self, context, **kwargs):
        """Ask for the port's details in the next round."""
        self.updated_devices.add(kwargs["port"]["id"])


class Manager(base.CommonAgentManagerBase):
    """Does nothing to the host."""

    def get_all_devices(self):
        """Return the ids of the ports whose interfaces are on this host."""
        return {path.name for path in _PORTS.iterdir()} if _PORTS.is_dir() else set()

    def get_agent_configurations(self):
        """Return what the server keeps of this agent."""
        return {"interface_mappings": {}, "tunnel_types": []}

    def get_agent_id(self):
        """Return a name that is unique."""
        return f"agent-{cfg.CONF.host}"

    def get_devices_modified_timestamps(self, devices):
        """Return when each interface was made: a server that starts again has a new one."""
        return {
            device: (_PORTS / device).stat().st_mtime_ns
            for device in devices
            if (_PORTS / device).exists()
        }

    def get_extension_driver_type(self):
        """Return the kind of extensions that would fit."""
        return "cloud"

    def get_rpc_callbacks(self, context, agent, sg_agent):
        """Return the endpoint for what the server tells."""
        return Callbacks(context, agent, sg_agent)

    def get_agent_api(self, **kwargs):
        """Return nothing: there are no extensions."""

    def get_rpc_consumers(self):
        """Return the topics that the server casts to."""
        return [
            [topics.PORT, topics.UPDATE],
            [topics.NETWORK, topics.DELETE],
            [topics.SECURITY_GROUP, topics.UPDATE],
        ]

    def plug_interface(self, network_id, network_segment, device, device_owner):
        """Say that it is plugged."""
        return True

    def ensure_port_admin_state(self, device, admin_state_up):
        """Do nothing."""

    def setup_arp_spoofing_protection(self, device, device_details):
        """Do nothing."""

    def delete_arp_spoofing_protection(self, devices):
        """Do nothing."""

    def delete_unreferenced_arp_protection(self, current_devices):
        """Do nothing."""


def main():
    """Run the agent until it is told to end."""
    config.register_common_config_options()
    agent_config.register_agent_state_opts_helper(cfg.CONF)
    config.init(sys.argv[1:])
    config.setup_logging()
    agent = _common_agent.CommonAgentLoop(
        Manager(),
        cfg.CONF.AGENT.polling_interval,
        cfg.CONF.AGENT.quitting_rpc_timeout,
        constants.AGENT_TYPE_OFA,
        "cloud-l2-agent",
    )
    service.launch(cfg.CONF, agent, restart_method="mutate").wait()


if __name__ == "__main__":
    main()
