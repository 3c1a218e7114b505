# SPDX-License-Identifier: Apache-2.0

"""The example of the documentation, run as it is printed there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from amqp1_driver.bus import Bus

EXAMPLE = Path(__file__).resolve().parents[2] / "doc" / "source" / "examples" / "flow_control.py"


def example():
    spec = importlib.util.spec_from_file_location("flow_control", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def held(bus: Bus, topic: str):
    return lambda running: running.peek(f"unicast.openstack.{topic}.info") == 1


def test_the_worker_of_the_documentation_pauses_and_goes_on(broker, make_app, capsys):
    app = make_app(broker.address)
    transport = app.notification_transport()
    worker = example().Worker(transport)
    assert [control.credit for control in worker.controls] == [9, 1]
    worker.look_after_space(least=2**63)
    assert [control.paused for control in worker.controls] == [True, True]
    assert capsys.readouterr().out == (
        "paused, nothing is on its way: True\nthe bus keeps None orders\n" * 2
    )
    for topic in ("urgent", "ordinary"):
        app.notify(topic, topic=topic)
        broker.wait_until(held(broker, topic))
    assert (worker.urgent.done, worker.ordinary.done) == ([], [])
    worker.look_after_space(least=0)
    for topic in ("urgent", "ordinary"):
        broker.wait_until(
            lambda running, topic=topic: not running.peek(f"unicast.openstack.{topic}.info")
        )
    worker.stop()
    assert (worker.urgent.done, worker.ordinary.done) == (["urgent"], ["ordinary"])
