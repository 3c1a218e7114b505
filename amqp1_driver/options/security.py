# SPDX-License-Identifier: Apache-2.0

"""Options: TLS and SASL."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, text

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "ssl",
        default=False,
        help="Connect by TLS. ssl_ca_file and ssl_cert_file imply it. Without ssl_ca_file "
        "the driver uses the system's CA certificates.",
    ),
    text(
        "ssl_ca_file",
        "",
        "PEM file with the CA certificates that the driver trusts when it checks the "
        "server's certificate.",
        **OLD,
    ),
    text(
        "ssl_cert_file",
        "",
        "PEM file with the client certificate, or its chain, that the driver presents.",
        **OLD,
    ),
    text(
        "ssl_key_file",
        "",
        "PEM file with the private key of ssl_cert_file. Not needed if that file holds "
        "the key too.",
        **OLD,
    ),
    text(
        "ssl_key_password",
        None,
        "Password of the private key, if the key is encrypted.",
        secret=True,
        **OLD,
    ),
    cfg.BoolOpt(
        "ssl_verify_vhost",
        default=False,
        help="Expect the name of the virtual host in the server's certificate, instead of "
        "the host name of the transport URL, and send it as SNI. For servers with one "
        "certificate per virtual host.",
    ),
    cfg.StrOpt(
        "ssl_min_version",
        default="TLSv1.2",
        choices=["TLSv1.2", "TLSv1.3"],
        help="Lowest TLS version that the driver accepts.",
    ),
    text(
        "sasl_mechanisms",
        "",
        "SASL mechanisms that the driver may use, separated by blanks. Empty: SCRAM or "
        "PLAIN with a user in the transport URL, EXTERNAL with a client certificate "
        "and no user, else ANONYMOUS.",
        **OLD,
    ),
    cfg.BoolOpt(
        "sasl_allow_insecure_mechs",
        default=True,
        help="Allow mechanisms that show the password (PLAIN, LOGIN) without TLS. The "
        "driver then logs one warning per transport. If false, a bus without TLS has "
        "to offer SCRAM. With TLS these mechanisms are always allowed.",
    ),
    text("sasl_config_dir", "", "Directory with the Cyrus SASL configuration.", **OLD),
    text("sasl_config_name", "", "Name of the Cyrus SASL configuration file without .conf.", **OLD),
    text(
        "sasl_default_realm",
        "",
        "Realm that the driver adds to user names without one (user@realm).",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """The checked values of the options in this module. Durations in seconds, sizes in bytes."""

    ssl: bool
    ssl_ca_file: str
    ssl_cert_file: str
    ssl_key_file: str
    ssl_key_password: str | None = dataclasses.field(repr=False)
    ssl_verify_vhost: bool
    ssl_min_version: str
    sasl_mechanisms: str
    sasl_allow_insecure_mechs: bool
    sasl_config_dir: str
    sasl_config_name: str
    sasl_default_realm: str
