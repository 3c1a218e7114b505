# SPDX-License-Identifier: Apache-2.0

"""Options: TLS and SASL."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, text

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "ssl",
        default=False,
        help="Connect by TLS. Implied by ssl_ca_file and "
        "ssl_cert_file. The system's CA certificates are used without ssl_ca_file.",
    ),
    text(
        "ssl_ca_file",
        "",
        "PEM file with the CA certificates that may have signed the server's certificate.",
        **OLD,
    ),
    text("ssl_cert_file", "", "PEM file with the client certificate (chain) to present.", **OLD),
    text(
        "ssl_key_file",
        "",
        "PEM file with the private key of ssl_cert_file; not needed when "
        "that file holds the key too.",
        **OLD,
    ),
    text("ssl_key_password", None, "Password of an encrypted private key.", secret=True, **OLD),
    cfg.BoolOpt(
        "ssl_verify_vhost",
        default=False,
        help="Expect the name of the virtual host in "
        "the server's certificate (and send it as SNI) instead of the host name of the "
        "transport URL. For servers with one certificate per virtual host.",
    ),
    cfg.StrOpt(
        "ssl_min_version",
        default="TLSv1.2",
        choices=["TLSv1.2", "TLSv1.3"],
        help="Lowest TLS version to accept.",
    ),
    text(
        "sasl_mechanisms",
        "",
        "SASL mechanisms that may be used, separated by blanks. By "
        "default SCRAM or PLAIN with a user in the transport URL, EXTERNAL with a client "
        "certificate and no user, else ANONYMOUS.",
        **OLD,
    ),
    cfg.BoolOpt(
        "sasl_allow_insecure_mechs",
        default=True,
        help="Whether mechanisms that show the "
        "password (PLAIN, LOGIN) may be used without TLS, with one warning per transport. "
        "If false, a bus without TLS has to offer SCRAM. With TLS they are always "
        "allowed.",
    ),
    text("sasl_config_dir", "", "Directory with the Cyrus SASL configuration.", **OLD),
    text("sasl_config_name", "", "Name of the Cyrus SASL configuration file without .conf.", **OLD),
    text("sasl_default_realm", "", "Realm added to user names that have none (user@realm)."),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

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
