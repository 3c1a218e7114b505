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

"""The only module that imports private parts of oslo.messaging, and the check of proton.

Works with oslo.messaging 16.x, 17.x and 18.x. Everything else in the driver takes these
names from here, so that a change upstream is met in one place.
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

# Modules of oslo.messaging whose client and server code reads an option group from the
# transport's configuration, but which register it with the global one only.
# Each module holds the list of options under the name of the group.
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
    """Qpid Proton is missing or lacks a feature; the text names the packages to install.

    A RuntimeError, because that is what oslo.messaging turns into DriverLoadFailure.
    """


def upstream_groups() -> list[tuple[str, list[Any]]]:
    """Option groups which oslo.messaging reads from the configuration of a transport.

    :returns: (group name, options) for those groups that the installed release has.
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
    """Make sure that Qpid Proton is there and can do what the configuration asks for.

    TLS is not looked at: it is done by Python's own ssl module.

    :param sasl_mechanisms: value of the option, names separated by blanks.
    :raises MissingProton: naming what to install.
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
    """Whether a listener's callback hands its message to native threads and returns.

    That is so of oslo.messaging's servers with the executor "threading". Any other callback
    may work on the message itself, and so wait for the very thread that calls it.
    """
    server = getattr(callback, "__self__", None)
    return (
        isinstance(server, MessageHandlingServer)
        and getattr(callback, "__func__", None) is MessageHandlingServer._on_incoming
        and getattr(server, "executor_type", None) == "threading"
    )


def listener_of(server: Any) -> Any:
    """The listener of a server that was started, None before that.

    :param server: what ``get_rpc_server`` or ``get_notification_listener`` have returned;
        anything else is returned as it is
    """
    return server.listener if isinstance(server, MessageHandlingServer) else server
