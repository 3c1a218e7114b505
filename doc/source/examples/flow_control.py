# SPDX-License-Identifier: Apache-2.0

# begin
"""A worker that stops taking orders while it is short of space, and prefers urgent ones."""

import shutil

import oslo_messaging

from amqp1_driver import flow


class Orders:
    def __init__(self):
        self.done = []

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        self.done.append(payload)


def listen(transport, topic, endpoint, credit):
    """A started listener and its flow control."""
    listener = oslo_messaging.get_notification_listener(
        transport, [oslo_messaging.Target(topic=topic)], [endpoint], executor="threading"
    )
    listener.start()
    control = flow.control(listener)
    control.set_credit(credit)
    return listener, control


class Worker:
    """Of ten orders that can be here, nine are urgent ones, if there are so many."""

    def __init__(self, transport):
        self.urgent, self.ordinary = Orders(), Orders()
        self.listeners, self.controls = zip(
            listen(transport, "urgent", self.urgent, credit=9),
            listen(transport, "ordinary", self.ordinary, credit=1),
            strict=True,
        )

    def look_after_space(self, path="/", least=2**30):
        """Called from time to time: with less than a GiB left, the bus keeps the orders."""
        short = shutil.disk_usage(path).free < least
        for control in self.controls:
            if short and not control.paused:
                confirmed = control.pause()
                print("paused, nothing is on its way:", confirmed)
                print("the bus keeps", control.backlog, "orders")
            elif not short and control.paused:
                control.resume()

    def stop(self):
        for listener in self.listeners:
            listener.stop()  # what is on its way is worked off
        for listener in self.listeners:
            listener.wait()
