# SPDX-License-Identifier: Apache-2.0
"""What the recorder makes of the services' events."""

import json
import socket

from tests.cloud import recorder


def _sent(kind, method, error=None):
    return {
        "event": "sent",
        "kind": kind,
        "method": method,
        "topic": "compute",
        "seconds": 60.0,
        "error": error,
        "service": "nova-api",
    }


def _executed(identity, method, service="nova-compute-1", pid=1):
    return {"event": "executed", "id": identity, "method": method, "service": service, "pid": pid}


def test_a_request_that_two_servers_ran_ran_twice():
    events = [
        _sent("cast to a server", "reboot"),
        _executed("a", "reboot"),
        _executed("a", "reboot", "nova-compute-2", 2),
    ]
    assert recorder.executed_twice(events) == [
        "reboot (message a) ran 2 times: nova-compute-1, nova-compute-2"
    ]


def test_a_fanout_runs_once_in_each_process():
    events = [
        _sent("fanout", "update"),
        _executed("a", "update", pid=1),
        _executed("a", "update", pid=2),
    ]
    assert recorder.executed_twice(events) == []
    assert recorder.executed_twice([*events, _executed("a", "update", pid=2)]) == [
        "update (message a) ran 3 times: nova-compute-1, nova-compute-1, nova-compute-1"
    ]


def test_two_requests_of_one_method_are_two():
    events = [_sent("call", "get"), _executed("a", "get"), _executed("b", "get")]
    assert recorder.executed_twice(events) == []


def test_requests_are_counted_by_kind():
    events = [
        _sent("call", "get"),
        _sent("call", "put"),
        _sent("fanout", "get"),
        _executed("a", ""),
    ]
    assert recorder.requests(events) == {"call": 2, "fanout": 1}


def test_what_messaging_failed_is_told_and_a_method_s_own_exception_is_not():
    events = [_sent("call", "get", "MessagingTimeout"), _sent("call", "put", "RemoteError")]
    assert recorder.failures(events) == [
        "nova-api: call of get to compute failed after 60.0 s: MessagingTimeout"
    ]


def test_it_keeps_what_it_hears(tmp_path):
    heard = recorder.Recorder(tmp_path / "socket", tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'{"event": "sent"}', str(tmp_path / "socket"))
        sender.sendto(b'{"event": "executed"}', str(tmp_path / "socket"))
    heard.close()
    assert [event["event"] for event in heard.events()] == ["sent", "executed"]
    assert [event["event"] for event in heard.events(1)] == ["executed"]
    lines = (tmp_path / "journal").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["sent", "executed"]


def _notified(identity):
    return {"event": "notified", "id": identity, "type": f"instance.{identity}"}


def _refused(identity, at):
    return {"event": "refused", "id": identity, "at": at, "error": "MessageDeliveryFailure"}


def test_a_notification_is_lost_if_nobody_received_it_and_nobody_was_told():
    events = [_notified("a"), _notified("b")]
    assert recorder.unreceived(events, {"a"}, []) == (["instance.b"], [])


def test_one_that_failed_in_an_outage_is_not_lost():
    events = [_notified("a"), _refused("a", 5.0), _notified("b"), _refused("b", 7.0)]
    assert recorder.unreceived(events, {}, [(4.0, 6.0)]) == (["instance.b"], ["instance.a"])


def test_one_that_failed_and_came_all_the_same_is_neither():
    events = [_notified("a"), _refused("a", 5.0)]
    assert recorder.unreceived(events, {"a"}, [(4.0, 6.0)]) == ([], [])
