# SPDX-License-Identifier: Apache-2.0
"""What counts as caused by messaging in a service's log."""

from tests.cloud import logs

_ERROR = """\
2026-11-24 05:08:14.229 28581 ERROR oslo_messaging.rpc.server [None req-1 - - - - - -] Exception \
during message handling: ValueError: 1
2026-11-24 05:08:14.229 28581 ERROR oslo_messaging.rpc.server Traceback (most recent call last):
2026-11-24 05:08:14.229 28581 ERROR oslo_messaging.rpc.server ValueError: 1
""".splitlines()


def test_an_error_with_its_traceback_is_one():
    (found,) = logs.complaints("nova-api", _ERROR)
    assert (found.service, found.level, found.count) == ("nova-api", "ERROR", 1)
    assert found.text == (
        "oslo_messaging.rpc.server: Exception during message handling: ValueError: 1"
    )


def test_errors_that_differ_in_numbers_and_ids_only_are_counted_together():
    other = [line.replace("05:08:14.229", "05:09:00.000").replace(": 1", ": 2") for line in _ERROR]
    (found,) = logs.complaints("nova-api", _ERROR + other)
    assert found.count == 2


def test_another_logger_s_error_counts_if_its_traceback_names_messaging():
    line = "2026-11-24 05:08:14.229 1 ERROR nova.servicegroup.drivers.db [-] it failed"
    tail = (
        "2026-11-24 05:08:14.229 1 ERROR nova.servicegroup.drivers.db "
        "oslo_messaging.exceptions.MessagingTimeout: Timed out"
    )
    assert logs.complaints("nova-compute-1", [line]) == []
    (found,) = logs.complaints("nova-compute-1", [line, tail])
    assert found.text == "nova.servicegroup.drivers.db: it failed"


def test_a_warning_counts_when_it_is_repeated():
    line = "2026-11-24 05:08:14.{:03} 1 WARNING amqp1_driver.connection.hosts [-] Lost {} of 9"
    once = [line.format(1, 5)]
    assert logs.complaints("glance", once) == []
    (found,) = logs.complaints("glance", [*once, line.format(2, 6)])
    assert (found.level, found.count) == ("WARNING", 2)


def test_other_libraries_warnings_and_information_do_not_count():
    lines = [
        "2026-11-24 05:08:14.001 1 WARNING nova.compute.manager [-] Lost",
        "2026-11-24 05:08:14.002 1 WARNING nova.compute.manager [-] Lost",
        "2026-11-24 05:08:14.003 1 INFO amqp1_driver.connection.hosts [-] Connected",
        "2026-11-24 05:08:14.004 1 INFO amqp1_driver.connection.hosts [-] Connected",
        "a line of uWSGI",
    ]
    assert logs.complaints("nova-compute-1", lines) == []


def test_what_comes_while_something_is_down_is_left_out():
    away = ("2026-11-24 05:08:14.000", "2026-11-24 05:08:15.000")
    assert logs.complaints("nova-api", _ERROR, [away]) == []
    after = ("2026-11-24 05:08:14.230", "2026-11-24 05:08:15.000")
    assert len(logs.complaints("nova-api", _ERROR, [after])) == 1
    assert logs.complaints("nova-api", _ERROR, [after, away]) == []


def test_what_each_worker_says_once_does_not_count():
    line = (
        "2026-11-24 12:46:52.939 {} WARNING oslo_messaging.server [-] Possible hang: "
        "wait is waiting for stop to complete"
    )
    assert logs.complaints("neutron-rpc-server", [line.format(1), line.format(2)]) == []
