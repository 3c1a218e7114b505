# SPDX-License-Identifier: Apache-2.0

"""Detection of the bus from its Open frame.  Pure, for any thread.

Capabilities alone do not suffice: buses announce too little.  Therefore the product and its version
choose the profile.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from amqp1_driver.addressing.profiles import PROFILES, SERVICE_BUS, BusProfile, Relay
from amqp1_driver.exceptions import printable

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
#: longest product name and version text that the driver keeps, in characters
_TEXT = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """The identity that the peer announces (Open, AMQP 1.0 section 2.7.1).

    :param product: name of the product; empty when the peer does not announce it.
    :param version: numbers of the version, () when unknown.
    """

    product: str
    version: tuple[int, ...] = ()
    capabilities: frozenset[str] = frozenset()
    container: str = ""

    @classmethod
    def from_open(
        cls,
        properties: object,
        offered_capabilities: object,
        *,
        container: str | None = None,
    ) -> "Peer":
        """Return the peer that an Open frame describes; never raise, whatever the frame holds."""
        given = (
            {key: value for key, value in properties.items() if isinstance(key, str)}
            if isinstance(properties, Mapping)
            else {}
        )
        if isinstance(offered_capabilities, str):  # one symbol instead of an array
            offered_capabilities = (offered_capabilities,)
        elif not isinstance(offered_capabilities, Iterable):
            offered_capabilities = ()
        return cls(
            product=_text(given.get("product")),
            version=_version(_text(given.get("version"))),
            capabilities=frozenset(
                str(symbol) for symbol in offered_capabilities if isinstance(symbol, str)
            ),
            container=container or "",
        )

    def __str__(self) -> str:
        version = ".".join(map(str, self.version))
        return " ".join(filter(None, (self.product or "unknown AMQP peer", version)))


def profile_for(peer: Peer, mode: str = "dynamic") -> BusProfile:
    """Return the profile for a peer.

    :param mode: option ``addressing_mode``; any value but ``dynamic`` forces the syntax of
        addresses and nothing else, except ``servicebus``, which selects the whole profile.
    """
    forced = forced_profile(mode)
    if forced is not None:
        return forced
    # An unknown bus: treat it as the driver that was part of oslo.messaging does, because
    # processes with that driver may share the bus.
    profile = _known(peer) or BusProfile(name=str(peer), addressing="routable", durable=True)
    if ANONYMOUS_RELAY not in peer.capabilities:
        profile = dataclasses.replace(profile, relay=Relay.NOTHING)
    if mode in ("dynamic", profile.addressing):
        return profile
    # Pools need the syntax that is native to the bus.
    return dataclasses.replace(profile, addressing=mode, pools=False)


def forced_profile(mode: str) -> BusProfile | None:
    """Return the profile if the option alone determines it, before the peer's Open; else None."""
    return SERVICE_BUS if mode == SERVICE_BUS.addressing else None


def _known(peer: Peer) -> BusProfile | None:
    for lowest, profile in PROFILES.get(peer.product.lower(), ()):
        if peer.version >= lowest:
            return profile
    return None


def _text(value: object) -> str:
    return printable(value, _TEXT) if isinstance(value, str) else ""


def _version(text: str) -> tuple[int, ...]:
    """Parse a version: ``4.3.6+2.g1`` is (4, 3, 6); () for a text without numbers."""
    found = re.search(r"\d+(?:\.\d+)*", text, re.ASCII)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
