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


"""Tokens for claims-based security (AMQP CBS): made, and when to renew them.

A shared access signature (SAS) proves that its maker has the key of a rule, without showing
the key: ``SharedAccessSignature sr=RESOURCE&sig=SIGNATURE&se=EXPIRY&skn=RULE``. Pure: wall clock
and jitter are passed in. Times are seconds, since 1970 where they are points in time.
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
JWT = "jwt"

#: Part of a token's life after which it is renewed at the latest, and how much sooner at most:
#: the tokens of many entities and processes are not to be renewed all at once.
RENEW_AT = 0.75
JITTER = 0.1

#: ``provider(resource) -> (token, type, expiry)``, see the option ``token_provider``
Provider = Callable[[str], tuple[str, str, Any]]


@dataclass(frozen=True, slots=True)
class Token:
    """What is put into ``$cbs``; immutable, any thread.

    :param type: :data:`SAS`, :data:`JWT` or what else the peer knows
    :param expires: seconds since 1970
    """

    text: str = field(repr=False)
    type: str
    expires: float


def sas(resource: str, rule: str, key: str, now: float, life: float) -> Token:
    """A token for everything below ``resource``.

    :param resource: URI, for example ``amqp://ns.servicebus.windows.net/queue``
    :param now: seconds since 1970
    :param life: seconds; less than one counts as one, since the token tells whole seconds
    """
    expires = int(now) + max(1, round(life))
    target = quote_plus(resource)
    signed = hmac.new(key.encode(), f"{target}\n{expires}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(signed).decode())
    text = f"SharedAccessSignature sr={target}&sig={signature}&se={expires}&skn={quote_plus(rule)}"
    return Token(text, SAS, float(expires))


def renewal(expires: float, now: float, rng: random.Random) -> float:
    """In how many seconds to renew a token: after two thirds to three quarters of its life."""
    share = RENEW_AT * (1.0 - JITTER * rng.random())
    return max(0.0, (expires - now) * share)


def after_failure(expires: float, now: float, delay: float) -> float:
    """In how many seconds to try again after a renewal failed while the token still counts.

    :param delay: what the back-off says; less when life is short, so that at least two more
        attempts come before the end
    """
    return max(0.05, min(delay, (expires - now) / 3))


def checked(answer: object) -> Token:
    """What a provider returned.

    :raises ValueError: it is no token
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
    if isinstance(expires, bool) or not isinstance(expires, (int, float)):
        raise ValueError("a token provider must return the expiry in seconds since 1970")
    return Token(text, kind, float(expires))


def provider(path: str) -> Provider:
    """The function that ``package.module:function`` names.

    :raises ValueError: there is none
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
