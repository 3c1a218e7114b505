# SPDX-License-Identifier: Apache-2.0


"""Tokens for claims-based security (AMQP CBS), and the times to renew them. For any thread.

A shared access signature (SAS) proves that its maker has the key of a rule, without showing
the key: ``SharedAccessSignature sr=RESOURCE&sig=SIGNATURE&se=EXPIRY&skn=RULE``. Callers
pass in wall clock and jitter. Pure, except that ``provider`` imports a module. Durations are
seconds, points in time are seconds since 1970.
"""

import base64
import datetime
import hashlib
import hmac
import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

SAS = "servicebus.windows.net:sastoken"

#: RENEW_AT: the share of a token's life after which the driver renews the token at the latest.
#: JITTER: the driver renews a token earlier by a random time, at most this share of that time, so
#: that many entities and processes do not renew their tokens all at once.
RENEW_AT = 0.75
JITTER = 0.1
#: seconds since 1970: the end of the year 9999, the last that other systems can represent
LATEST_EXPIRY = 253402300799

#: ``provider(resource) -> (token, type, expiry)``, see the option ``token_provider``
Provider = Callable[[str], tuple[str, str, Any]]


@dataclass(frozen=True, slots=True)
class Token:
    """A token that the driver puts into ``$cbs``. Immutable, for any thread.

    :param type: :data:`SAS`, ``jwt`` or another type that the peer knows
    :param expires: seconds since 1970
    """

    text: str = field(repr=False)
    type: str
    expires: float


def sas(resource: str, rule: str, key: str, now: float, life: float) -> Token:
    """Make a token for everything below ``resource``.

    :param resource: URI, for example ``amqp://ns.servicebus.windows.net/queue``
    :param rule: name of the rule whose ``key`` signs the token
    :param now: seconds since 1970
    :param life: seconds; less than one counts as one, because a token's expiry is in whole seconds
    """
    expires = int(now) + max(1, round(life))
    target = quote_plus(resource)
    signed = hmac.new(key.encode(), f"{target}\n{expires}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(signed).decode())
    text = f"SharedAccessSignature sr={target}&sig={signature}&se={expires}&skn={quote_plus(rule)}"
    return Token(text, SAS, float(expires))


def renewal(expires: float, now: float, rng: random.Random) -> float:
    """Return the seconds until renewal: between two thirds and three quarters of the time left."""
    share = RENEW_AT * (1.0 - JITTER * rng.random())
    return max(0.0, (expires - now) * share)


def after_failure(expires: float, now: float, delay: float) -> float:
    """Return the seconds until another attempt, after a renewal failed while the token is valid.

    :param delay: delay of the back-off, in seconds. The result is shorter if the token expires
        soon, so that at least two more attempts come before it expires; it is at least 0.05.
    """
    return max(0.05, min(delay, (expires - now) / 3))


def checked(answer: object) -> Token:
    """Check the answer of a token provider, and return it as a token.

    :raises ValueError: the answer is not a token
    """
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise ValueError("a token provider must return (token, type, expiry)")
    text, kind, expires = answer
    if isinstance(text, bytes):
        text = text.decode()
    if not isinstance(text, str) or not text or not isinstance(kind, str) or not kind:
        raise ValueError("a token provider must return token and type as text")
    if isinstance(expires, datetime.datetime):
        expires = expires.timestamp()
    if (
        isinstance(expires, bool)
        or not isinstance(expires, (int, float))
        or not 0 <= expires <= LATEST_EXPIRY
    ):
        raise ValueError("a token provider must return the expiry in seconds since 1970")
    return Token(text, kind, float(expires))


def provider(path: str) -> Provider:
    """Return the function that ``package.module:function`` names.

    :raises ValueError: the path names no function
    """
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} can't be loaded: {error}") from error
    if not callable(found):
        raise ValueError(f"{path} is not callable")
    return found  # type: ignore[no-any-return]
