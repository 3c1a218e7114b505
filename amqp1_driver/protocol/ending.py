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

"""Why physical connections end, and why there is none now, in words for logs and errors.

Lives on the I/O thread.
"""

from collections.abc import Callable

from amqp1_driver import exceptions
from amqp1_driver.options import Settings
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect
from amqp1_driver.protocol import diagnosis
from amqp1_driver.protocol.dialling import Dialling
from amqp1_driver.protocol.states import ConnectionState

_State = ConnectionState

#: what a connection that is being made waits for
_AWAITED = {_State.CONNECTING: "its host name, TCP or TLS", _State.OPENING: "SASL and AMQP Open",
            _State.ATTACHING: "the reply link"}


class Ending:
    """The ends of one logical connection's physical ones.

    :param now: the clock
    """

    def __init__(self, settings: Settings, dialling: Dialling, now: Callable[[], float]) -> None:
        self._settings = settings
        self._dialling = dialling
        self._now = now
        #: why the physical connection has to end; None as long as it may go on
        self.loss: exceptions.AmqpError | None = None
        #: why the last one has ended; None once another is ready
        self.last_error: BaseException | None = None
        self._first = b""

    @property
    def _host(self) -> str:
        return str(self._dialling.current)

    def begin(self) -> None:
        """There is a transport, on which the peer has said nothing yet."""
        self._first = b""

    def hear(self, data: bytes) -> None:
        """The peer has said this."""
        if not self._first:
            self._first = bytes(data[:1])

    # -- reasons to end ------------------------------------------------------------

    def broken(self, error: Exception) -> None:
        """Something has failed inside."""
        self.loss = exceptions.ConnectionLost(f"internal error: {error!r}", host=self._host)

    def named_anew(self) -> None:
        """The peer wants another spelling of the virtual host."""
        self.loss = exceptions.ConnectionLost("virtual host is named anew", host=self._host)

    def closed(self, name: str | None, text: str | None,
               default: type[exceptions.AmqpError]) -> None:
        """The peer has closed, or what it sends can't be AMQP.

        :param name: of the condition (2.8.14)
        :param default: the error, if the condition means no other
        """
        text = diagnosis.plain_words(text, self._settings, self._dialling.current)
        self.loss = exceptions.from_condition(name, text, default=default, host=self._host)

    def sent_elsewhere(self, redirect: Redirect) -> None:
        """It has closed to send us to another host."""
        reason = self._dialling.redirected(redirect, self._now())
        if reason is not None and self.loss is not None:
            self.loss = exceptions.not_followed(self.loss, reason)

    def follow(self, redirect: Redirect) -> str | None:
        """What a link wants is at another host: go there, with all that is on this connection.

        :returns: why not, None if so
        """
        if not redirect.elsewhere(self._dialling.current):
            return SAME_PLACE
        reason = self._dialling.redirected(redirect, self._now())
        if reason is None:
            self.loss = exceptions.ConnectionLost("redirected by a link", host=self._host)
        return reason

    # -- words ---------------------------------------------------------------------

    def too_slow(self, state: ConnectionState) -> exceptions.AmqpError:
        """The time to connect is over."""
        doing = _AWAITED.get(state, state.value)
        return exceptions.ConnectionFailed(
            f"no answer within {self._settings.connect_timeout:g} s while waiting for {doing}",
            host=self._host)

    def while_opening(self, error: exceptions.AmqpError) -> exceptions.AmqpError:
        """The attempt has ended before the peer's Open frame: what that may mean."""
        error = diagnosis.while_opening(error, self._settings, self._first,
                                        self._dialling.virtual_host_name)
        self._dialling.not_opened()
        return error

    def trouble(self, state: ConnectionState) -> str:
        """Why nothing can be sent just now; any thread."""
        awaited, error = _AWAITED.get(state), self.last_error
        parts = [f"{self._host}: waiting for {awaited}" if awaited else "",
                 f"last error: {error}" if error is not None else ""]
        return "; ".join(part for part in parts if part)
