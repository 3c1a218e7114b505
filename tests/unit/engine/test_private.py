# SPDX-License-Identifier: Apache-2.0

"""What the engine uses of pyngus and proton beside their documented APIs exists."""

from __future__ import annotations

import logging
import pathlib
import re

import proton
import pyngus
import pytest

import amqp1_driver.engine
from amqp1_driver.engine import proton_private, pyngus_private

FOLDER = pathlib.Path(amqp1_driver.engine.__file__).parent


def test_pyngus_takes_an_event(caplog: pytest.LogCaptureFixture) -> None:
    opened = []

    class Handler(pyngus.ConnectionEventHandler):  # type: ignore[misc]
        def connection_active(self, connection: pyngus.Connection) -> None:
            opened.append(connection)

    connection = pyngus.Container("c").create_connection("c", Handler(), {})
    collector = proton.Collector()
    for kind in (proton.Event.CONNECTION_LOCAL_OPEN, proton.Event.CONNECTION_REMOTE_OPEN):
        collector.put(connection.pn_connection, kind)
        pyngus_private.pass_event(connection, collector.peek())
        collector.pop()
    assert opened == [connection]


def test_pyngus_logs_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    connection = pyngus.Container("c").create_connection("c", None, {})
    connection.open()
    connection.process_input(b"no AMQP at all")
    pyngus_private.silence_failures()
    pyngus_private.silence_failures()
    with caplog.at_level(logging.DEBUG):
        connection.process(1.0)
        collector = proton.Collector()
        collector.put(connection.pn_transport, proton.Event.TRANSPORT_ERROR)
        pyngus_private.pass_event(connection, collector.peek())
    assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert len(logging.getLogger("pyngus.connection").filters) == 1


def test_objects_of_proton_have_addresses() -> None:
    session = proton.Connection().session()
    link = session.sender("s")
    delivery = link.delivery("1")
    addresses = {proton_private.address(each) for each in (session, link, delivery)}
    assert len(addresses) == 3
    assert min(addresses) > 0
    assert proton_private.delivery_at(proton_private.address(delivery)).tag == "1"


def test_memory_has_an_address() -> None:
    view, address = proton_private.buffer(3)
    view[:] = b"abc"
    assert (len(view), bytes(view)) == (3, b"abc")
    assert address > 0


def test_a_function_that_the_library_lacks_is_none() -> None:
    assert proton_private.exported("pn_link_levitate", None) is None


def test_no_other_module_of_the_engine_uses_private_names() -> None:
    private = re.compile(r"\bcproton|\._(?:handle_proton|pn_|impl|ep_|process_)\w*|pyngus\._")
    found = {path.name for path in FOLDER.glob("*.py") if private.search(path.read_text())}
    assert found == {"proton_private.py", "pyngus_private.py"}
