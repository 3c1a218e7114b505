# SPDX-License-Identifier: Apache-2.0

"""The only module that imports private parts of oslo.messaging; it also checks for proton.

It works with oslo.messaging 16.x, 17.x and 18.x. All other modules of the driver import these
names from here, so that a change upstream needs a fix in one place only. Application threads.
"""

import importlib
from typing import Any

from oslo_messaging._drivers.base import (
    BaseDriver,
    IncomingMessage,
    Listener,
    PollStyleListener,
    PollStyleListenerAdapter,
    RpcIncomingMessage,
    TransportDriverError,
)
from oslo_messaging._drivers.common import (
    _RPC_ENVELOPE_VERSION as ENVELOPE_VERSION,
)
from oslo_messaging._drivers.common import (
    ConfigOptsProxy,
    deserialize_msg,
    deserialize_remote_exception,
    serialize_remote_exception,
)
from oslo_messaging.server import MessageHandlingServer

__all__ = [
    "ENVELOPE_VERSION",
    "BaseDriver",
    "ConfigOptsProxy",
    "IncomingMessage",
    "Listener",
    "MissingProton",
    "PollStyleListener",
    "PollStyleListenerAdapter",
    "RpcIncomingMessage",
    "TransportDriverError",
    "check_proton",
    "deserialize_msg",
    "deserialize_remote_exception",
    "listener_of",
    "only_submits",
    "serialize_remote_exception",
    "upstream_groups",
]

# (module, option group): client and server code of oslo.messaging reads these groups from the
# transport's configuration, but the modules register them with the global configuration only.
# Each module has the list of options in an attribute named like the group.
_UPSTREAM_GROUPS = (
    ("oslo_messaging._metrics.client", "oslo_messaging_metrics"),
    ("oslo_messaging._tracing.client", "oslo_messaging_tracing"),  # 18.3 and later
)

# Mechanisms that proton provides itself, without Cyrus SASL.
_BUILT_IN_SASL = frozenset({"ANONYMOUS", "EXTERNAL", "PLAIN"})

_PROTON_MISSING = (
    "the AMQP 1.0 driver needs Qpid Proton and pyngus, which cannot be imported ({error}). "
    "Install what building them needs: {dpkg} (Debian, Ubuntu) or {rpm} (RPM distributions); "
    "then: pip install python-qpid-proton pyngus"
)
_SASL_MISSING = (
    "Qpid Proton was built without Cyrus SASL, so the mechanisms {names} of the option "
    "sasl_mechanisms cannot be used. Install {dpkg} (Debian, Ubuntu) or {rpm} (RPM "
    "distributions); then build proton again: "
    "pip install --force-reinstall --no-cache-dir python-qpid-proton"
)
# As in bindep.txt: without these the build of proton fails or leaves out SASL silently.
_PACKAGES = {
    "dpkg": "gcc pkg-config libsasl2-dev libssl-dev libffi-dev python3-dev libsasl2-modules",
    "rpm": "gcc pkgconf cyrus-sasl-devel openssl-devel libffi-devel python3-devel cyrus-sasl-plain",
}


class MissingProton(RuntimeError):
    """Qpid Proton or one of its features is missing; the text names the packages to install.

    oslo.messaging turns a RuntimeError into DriverLoadFailure.
    """


def upstream_groups() -> list[tuple[str, list[Any]]]:
    """Return the option groups that oslo.messaging reads from the configuration of a transport.

    :returns: (group name, options) for each of these groups that the installed release has
    """
    groups = []
    for module_name, group in _UPSTREAM_GROUPS:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:
            continue
        groups.append((group, list(getattr(module, group))))
    return groups


def check_proton(sasl_mechanisms: str = "") -> None:
    """Check that Qpid Proton is installed and supports what the configuration asks for.

    TLS needs no check here, because the driver uses Python's ssl module for TLS, not proton.

    :param sasl_mechanisms: value of the option ``sasl_mechanisms``: names separated by blanks
    :raises MissingProton: proton, pyngus or Cyrus SASL is missing; the text says what to install
    """
    try:
        proton = importlib.import_module("proton")
        importlib.import_module("pyngus")
    except ImportError as error:
        raise MissingProton(_PROTON_MISSING.format(error=error, **_PACKAGES)) from error
    special = [n for n in sasl_mechanisms.split() if n.upper() not in _BUILT_IN_SASL]
    if special and not proton.SASL.extended():
        raise MissingProton(_SASL_MISSING.format(names=", ".join(special), **_PACKAGES))


def only_submits(callback: Any) -> bool:
    """Return whether a listener's callback only hands its message to native threads.

    The callbacks of oslo.messaging's servers with the executor "threading" do so. Any other
    callback may process the message itself, and wait for work that only the calling thread does.
    """
    server = getattr(callback, "__self__", None)
    return (
        isinstance(server, MessageHandlingServer)
        and getattr(callback, "__func__", None) is MessageHandlingServer._on_incoming
        and getattr(server, "executor_type", None) == "threading"
    )


def listener_of(server: Any) -> Any:
    """Return the listener of a server.

    :param server: result of ``get_rpc_server`` or ``get_notification_listener``
    :returns: None before the server is started; ``server`` itself if it is another object
    """
    return server.listener if isinstance(server, MessageHandlingServer) else server
