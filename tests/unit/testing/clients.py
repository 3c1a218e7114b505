# SPDX-License-Identifier: Apache-2.0
"""Clients for the tests of the peer: proton's engine and pyngus, joined in memory."""

import proton
import pyngus


class ProtonClient:
    """proton's low level engine; `exchange` moves bytes to a PeerCore and back until still."""

    def __init__(self, core, *, mechanisms="ANONYMOUS", user=None, password=None, idle=None):
        self.core = core
        self.connection = proton.Connection()
        self.connection.container = "client"
        self.connection.hostname = "host"
        self.transport = proton.Transport()
        if idle:
            self.transport.idle_timeout = idle
        if user:
            self.connection.user, self.connection.password = user, password
        if mechanisms:
            sasl = self.transport.sasl()
            sasl.allow_insecure_mechs = True
            sasl.allowed_mechs(mechanisms)
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()
        self.received = b""

    def exchange(self):
        while True:
            size = self.transport.pending()
            data = self.transport.peek(size) if size > 0 else b""
            if data:
                self.transport.pop(len(data))
            answer = self.core.receive(bytes(data))
            self.received += answer
            if not data and not answer:
                return self
            if answer and self.transport.capacity() > 0:
                self.transport.push(answer)

    def sender(self, address, name="s"):
        link = self.session.sender(name)
        link.target.address = address
        link.open()
        self.exchange()
        return link

    def receiver(self, address, name="r", credit=0):
        link = self.session.receiver(name)
        if address is None:
            link.source.dynamic = True
        else:
            link.source.address = address
        link.open()
        if credit:
            link.flow(credit)
        self.exchange()
        return link

    def send(self, link, body, tag="tag", settled=False):
        delivery = link.delivery(tag)
        link.send(proton.Message(body=body).encode())
        link.advance()
        if settled:
            delivery.settle()
        self.exchange()
        return delivery

    @property
    def condition(self):
        found = self.transport.condition
        return None if found is None else (found.name, found.description)


class PyngusClient(
    pyngus.ConnectionEventHandler, pyngus.SenderEventHandler, pyngus.ReceiverEventHandler
):
    """A pyngus connection; what happens to it is collected in `events`."""

    def __init__(self, core):
        self.core = core
        self.events = []
        self.container = pyngus.Container("client")
        self.connection = self.container.create_connection(
            "c", self, {"x-sasl-mechs": "ANONYMOUS", "hostname": "host"}
        )
        self.connection.pn_sasl.allowed_mechs("ANONYMOUS")
        self.connection.open()

    def exchange(self):
        while True:
            self.connection.process(0)
            data = bytes(self.connection.output_data()) if self.connection.has_output > 0 else b""
            if data:
                self.connection.output_written(len(data))
            answer = self.core.receive(data)
            if not data and not answer:
                return self
            if answer:
                assert self.connection.process_input(answer) == len(answer)

    def connection_active(self, connection):
        self.events.append("active")

    def connection_remote_closed(self, connection, condition):
        self.events.append(("remote closed", condition.name))

    def connection_closed(self, connection):
        self.events.append("closed")

    def sender_active(self, link):
        self.events.append("sender active")

    def sender_remote_closed(self, link, condition):
        self.events.append(("sender remote closed", condition.name, condition.description))
        link.close()

    def credit_granted(self, link):
        self.events.append(("credit", link.credit))

    def receiver_active(self, link):
        self.events.append(("receiver active", link.source_address))

    def message_received(self, link, message, handle):
        self.events.append(("message", message.body))
        link.message_accepted(handle)
