# SPDX-License-Identifier: Apache-2.0

"""A process in which proton and pyngus can't be imported: no_proton.py options|load|modules"""

import sys


class Missing:
    """Refuses the two, and what belongs to them."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("proton", "cproton", "cproton_ffi", "pyngus"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Missing())
what = sys.argv[1]
if what == "options":
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="oslo.config.opts", name="amqp1_driver")
    print(*(group for group, _ in entry.load()()))
elif what == "modules":
    import importlib

    for module in (
        "addressing",
        "codec",
        "compat",
        "driver",
        "eventloop",
        "exceptions",
        "options",
        "policy",
    ):
        importlib.import_module(f"amqp1_driver.{module}")
    print("all imported")
elif what == "load":
    import oslo_messaging
    from oslo_config import cfg

    conf = cfg.ConfigOpts()
    conf([])
    try:
        oslo_messaging.get_rpc_transport(conf, url="amqp://nowhere.invalid")
    except Exception as error:
        print(type(error).__name__, error)
