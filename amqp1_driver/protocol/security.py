#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""SASL and Open frame parameters from the configuration.  Pure."""

from typing import Any

from amqp1_driver.addressing.peer import foretold
from amqp1_driver.options import Host, Settings

#: with credentials, the strongest first; never ANONYMOUS behind a user's back
_WITH_PASSWORD = ("SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN")


def mechanisms(settings: Settings, host: Host) -> tuple[str, ...]:
    """SASL mechanisms that may be used with a host, in upper case.

    Those of the option ``sasl_mechanisms``; by default what the credentials in
    the URL allow: a user means a password mechanism, a client certificate
    EXTERNAL, neither ANONYMOUS.  ANONYMOUS also where tokens tell later who we are.
    """
    if settings.sasl_mechanisms:
        return tuple(settings.sasl_mechanisms.upper().split())
    profile = foretold(settings.addressing_mode)
    if profile is not None and profile.claims:
        return ("ANONYMOUS",)
    if host.username:
        return _WITH_PASSWORD
    return ("EXTERNAL",) if settings.ssl_cert_file else ("ANONYMOUS",)


def anonymous(settings: Settings, host: Host) -> bool:
    """Whether SASL leaves open who we are."""
    return mechanisms(settings, host) == ("ANONYMOUS",)


def engine_properties(settings: Settings, host: Host,
                      virtual_host: str | None) -> dict[str, Any]:
    """pyngus's connection properties.

    :param virtual_host: hostname of the Open frame; None: the host's name
    """
    properties: dict[str, Any] = {
        "hostname": virtual_host or host.hostname,
        "max-frame-size": settings.max_frame_size,
        "properties": {"product": "amqp1-driver"},
    }
    if settings.session_window:
        properties["x-session-window"] = settings.session_window
    if settings.idle_timeout:
        properties["idle-time-out"] = settings.idle_timeout
    if settings.trace:
        properties["x-trace-protocol"] = True
    names = mechanisms(settings, host)
    if names == ("EXTERNAL",):
        return properties
    properties["x-sasl-mechs"] = " ".join(names)
    if host.username and not anonymous(settings, host):
        properties["x-username"] = host.username
        properties["x-password"] = host.password or ""
    if settings.sasl_config_dir:
        properties["x-sasl-config-dir"] = settings.sasl_config_dir
    if settings.sasl_config_name:
        properties["x-sasl-config-name"] = settings.sasl_config_name
    return properties
