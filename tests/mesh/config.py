# SPDX-License-Identifier: Apache-2.0

"""Configuration files of skupper-router and qpid-dispatch, which read the same ones, and of qpidd.

What ``doc/source/examples/mesh`` shows to operators is made by this, and so is what the tests of
this folder run; ``test_config`` holds the two together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

#: prefix of the driver's addresses -> who gets a message
ADDRESSES = (
    ("openstack.org/om/rpc/multicast", "multicast"),
    ("openstack.org/om/rpc/unicast", "closest"),
    ("openstack.org/om/rpc/anycast", "balanced"),
    ("openstack.org/om/notify/anycast", "balanced"),
)

#: between routers
_BY_CERTIFICATE = (("sslProfile", "routers"), ("saslMechanisms", "EXTERNAL"))

Section = tuple[str, Sequence[tuple[str, object]]]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Certificates of a router, in files."""

    ca: str
    certificate: str
    key: str


@dataclasses.dataclass(frozen=True)
class Router:
    """One router.

    :param host: where it listens for applications
    :param port: of applications
    :param mesh_host: where it listens for other routers, and where these look for it; None: it
        stands alone
    :param listen: address of the listeners, ``host`` unless given
    :param mechanisms: of SASL, for applications
    :param sasl_dir: folder of the SASL configuration, a file ``NAME.conf``; None: the system's
    :param tls: applications must speak TLS
    :param mesh_tls: the same for other routers, which show certificates as well
    :param idle: seconds without a frame after which it gives a connection up
    """

    name: str
    host: str
    port: int = 5672
    mesh_host: str | None = None
    mesh_port: int = 55672
    listen: str | None = None
    mechanisms: str = "ANONYMOUS"
    sasl_name: str = "skrouterd"
    sasl_dir: str | None = None
    tls: Tls | None = None
    mesh_tls: Tls | None = None
    idle: int | None = None

    @property
    def authenticates(self) -> bool:
        return self.mechanisms != "ANONYMOUS"


def text(router: Router, others: Sequence[Router] = ()) -> str:
    """The file of ``router``, which connects to ``others`` of its mesh."""
    return "\n".join(_shown(section) for section in _sections(router, others))


def _sections(router: Router, others: Sequence[Router]) -> Iterator[Section]:
    settings: list[tuple[str, object]] = [
        ("mode", "interior" if router.mesh_host else "standalone"),
        ("id", router.name),
    ]
    if router.authenticates:
        settings += [("saslConfigName", router.sasl_name)]
        settings += [("saslConfigDir", router.sasl_dir)] if router.sasl_dir else []
    yield "router", settings
    yield from _listeners(router)
    for other in others:
        yield (
            "connector",
            (
                ("name", other.name),
                ("role", "inter-router"),
                ("host", other.mesh_host),
                ("port", other.mesh_port),
                *(_BY_CERTIFICATE if router.mesh_tls else ()),
            ),
        )
    for prefix, distribution in ADDRESSES:
        yield "address", (("prefix", prefix), ("distribution", distribution))


def _listeners(router: Router) -> Iterator[Section]:
    listener: list[tuple[str, object]] = [
        ("role", "normal"),
        ("host", router.listen or router.host),
        ("port", router.port),
        ("authenticatePeer", "yes" if router.authenticates else "no"),
        ("saslMechanisms", router.mechanisms),
    ]
    if router.idle is not None:
        listener.append(("idleTimeoutSeconds", router.idle))
    if router.tls is not None:
        yield _profile("applications", router.tls)
        listener += [("sslProfile", "applications"), ("requireSsl", "yes")]
    yield "listener", listener
    if router.mesh_tls is not None:
        yield _profile("routers", router.mesh_tls)
    if router.mesh_host is not None:
        secure = (("authenticatePeer", "yes"), *_BY_CERTIFICATE, ("requireSsl", "yes"))
        yield (
            "listener",
            (
                ("role", "inter-router"),
                ("host", router.mesh_host),
                ("port", router.mesh_port),
                *(secure if router.mesh_tls else ()),
            ),
        )


def _profile(name: str, files: Tls) -> Section:
    return "sslProfile", (
        ("name", name),
        ("caCertFile", files.ca),
        ("certFile", files.certificate),
        ("privateKeyFile", files.key),
    )


def _shown(section: Section) -> str:
    kind, settings = section
    lines = "".join(f"    {name}: {value}\n" for name, value in settings)
    return f"{kind} {{\n{lines}}}\n"


def qpidd(port: int = 5672, auth: str = "yes") -> str:
    """The file of qpidd: which nodes it makes when somebody first asks for them.

    The patterns are regular expressions. Without their beginning a topic called "broadcast" would
    make a topic of what has to be a queue.
    """
    patterns = (
        ("queue-patterns", "exclusive"),
        ("queue-patterns", "unicast"),
        ("topic-patterns", "broadcast"),
    )
    lines = [f"port={port}", f"auth={auth}", *(f"{key}=^{prefix}[.]" for key, prefix in patterns)]
    return "".join(f"{line}\n" for line in lines)


def sasl(users: str) -> str:
    """The file of Cyrus SASL for a router: passwords in the database ``users``.

    What it does not name no listener can offer: EXTERNAL is for other routers.
    """
    lines = (
        "pwcheck_method: auxprop",
        "auxprop_plugin: sasldb",
        f"sasldb_path: {users}",
        "mech_list: PLAIN EXTERNAL",
    )
    return "".join(f"{line}\n" for line in lines)
