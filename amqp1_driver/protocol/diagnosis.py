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

"""What the failure of a connection means, in the words of whoever set it up.  Pure."""

from amqp1_driver import exceptions
from amqp1_driver.options import Host, Settings
from amqp1_driver.protocol.security import mechanisms

#: first byte of a TLS record that holds an alert (RFC 8446, 5.1)
_TLS_ALERT = b"\x15"
_AMQP_HEADER = b"A"
#: how proton ends the text of a SASL failure before any mechanism was chosen
_NO_MECHANISM = "[mech=none]"


def plain_words(text: str | None, settings: Settings, host: Host) -> str | None:
    """The description of a failure, with what proton leaves out."""
    if text and text.endswith(_NO_MECHANISM):
        allowed = " ".join(mechanisms(settings, host))
        return f"no SASL mechanism in common with the peer; allowed here: {allowed}"
    return text


def while_opening(error: exceptions.AmqpError, settings: Settings, first: bytes,
                  virtual_host: str | None = None) -> exceptions.AmqpError:
    """The error of a connection that ended before the peer's Open frame.

    A server that wants TLS hangs up on our AMQP header, at most with an alert. RabbitMQ does so
    without a word when it has no such virtual host, or the user may not use it.

    :param first: the first byte that the peer has sent, if any
    :param virtual_host: that was asked for
    """
    if not settings.tls and first in (b"", _TLS_ALERT):
        return _with(error, "; is this a TLS port?")
    if (virtual_host is not None and first == _AMQP_HEADER and error.condition is None
            and not isinstance(error, exceptions.AuthenticationFailed)):
        return _with(error, f"; is there a virtual host {virtual_host!r}, and may the user use it?")
    return error


def _with(error: exceptions.AmqpError, question: str) -> exceptions.AmqpError:
    explained = exceptions.ConnectionFailed(
        f"{error.message}{question}", host=error.host, condition=error.condition,
        description=error.description)
    explained.__cause__ = error
    return explained
