# SPDX-License-Identifier: Apache-2.0

"""Recommended settings, by numbers computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.options import OPTS
from amqp1_driver.pipeline.telemetry import advice
from amqp1_driver.pipeline.telemetry.advice import Advice
from amqp1_driver.pipeline.telemetry.credit import credit_for, need
from amqp1_driver.pipeline.telemetry.observed import Flow, Observed, Spread, Times
from amqp1_driver.pipeline.telemetry.recommend import JUDGED, configured, defaults, recommend
from amqp1_driver.policy.credit import CreditWindow


def flow(**changes: Any) -> Flow:
    values: dict[str, Any] = {
        "place": "nova",
        "traffic": "rpc",
        "peak": 2000.0,
        "round_trip": 0.02,
        "samples": 20_000,
        "size": 1024,
    }
    return Flow(**{**values, **changes})


def one(option: str, observed: Observed, **current: float) -> Advice:
    return next(a for a in recommend(observed, current) if a.option == option)


def said(a: Advice) -> tuple[str, float | None, float | None, str]:
    return a.verdict, a.enough, a.recommended, a.sure


# 2000/s x 20 ms = 40 under way, times 1.5 = 60; half of 122 and 1 less are the 60 that are left
# when the subscription is filled up.
@pytest.mark.parametrize(
    ("rate", "round_trip", "credit"),
    [
        (2000.0, 0.02, 122),
        (0.0, 0.02, 2),
        (100.0, 0.001, 4),
        (1000.0, 0.1, 302),
    ],
)
def test_credit_by_littles_law(rate: float, round_trip: float, credit: int) -> None:
    assert credit_for(rate, round_trip) == credit


def test_the_driver_leaves_that_much_when_it_grants() -> None:
    """The rule that the formula rests on, by the window itself."""
    window = CreditWindow(122)
    window.on_attached()
    granted = 0
    while not granted:
        window.on_delivery()
        at_the_bus = window.credit
        granted = window.on_settled()
    assert (at_the_bus, granted) == (60, 62)


def test_credit_is_raised_for_the_neediest_address() -> None:
    observed = Observed(flows=[flow(place="small", peak=10.0), flow()])
    found = one("rpc_server_credit", observed)
    assert said(found) == ("raise", 122, 130, "high")
    assert (found.current, found.source, found.samples) == (100, "default", 20_000)
    assert found.why == (
        "nova: 2,000/s x 20 ms, twice and 1.5 times that. Bodies ahead: at most 122 KiB (p99)"
    )


def test_credit_that_is_enough_is_kept() -> None:
    observed = Observed(flows=[flow(peak=100.0, samples=9_999)])
    # 100/s x 20 ms x 1.5 = 3
    assert said(one("rpc_server_credit", observed)) == ("keep", 8, 100, "medium")


def test_notifications_have_an_option_of_their_own() -> None:
    observed = Observed(flows=[flow(traffic="notify")])
    assert said(one("notify_server_credit", observed)) == ("raise", 122, 130, "high")
    assert said(one("rpc_server_credit", observed)) == ("too few records", None, None, "none")


def test_few_samples_make_no_recommendation() -> None:
    found = one("rpc_server_credit", Observed(flows=[flow(samples=999)]))
    assert said(found) == ("too few records", None, None, "none")
    assert found.why == "999 outcomes for the address with the most; 1,000 are needed"


def test_readers_share_what_is_no_fanout() -> None:
    assert need(flow(readers=4)).rate == 500
    assert need(flow(readers=4, fanout=True)).rate == 2000


def test_the_credit_of_a_stalled_subscription_is_the_present_value() -> None:
    found = one("rpc_server_credit", Observed(flows=[flow(limit=50, readers=1)]))
    assert (found.current, found.source, found.recommended) == (50, "records", 130)


def test_stalls_as_short_as_a_round_trip_double_the_credit() -> None:
    bursts = flow(peak=100.0, readers=1, limit=100, stalls=7, stall=0.08)
    assert need(bursts).credit == 200
    assert said(one("rpc_server_credit", Observed(flows=[bursts]))) == ("raise", 200, 200, "high")


def test_long_stalls_are_the_applications() -> None:
    slow = flow(peak=100.0, readers=1, limit=100, stalls=7, stall=0.0801)
    found = one("rpc_server_credit", Observed(flows=[slow]))
    assert said(found) == ("keep", 8, 100, "high")
    assert "the application is slower than what comes" in found.why


def test_reply_link() -> None:
    # 3000/s x 50 ms x 1.5 = 225; 2 x 226
    observed = Observed(calls=3000, call_round_trip=Spread(10_000, 0.05))
    assert said(one("reply_link_credit", observed)) == ("raise", 452, 460, "high")
    assert said(
        one("reply_link_credit", Observed(calls=3000, call_round_trip=Spread(10, 0.05)))
    ) == ("too few records", None, None, "none")


def test_session_window_only_for_much_that_comes_ahead() -> None:
    # 100 x 600 KiB = 58.6 MiB; 100 x 1 MiB = 100 MiB
    assert said(one("session_window", Observed(flows=[flow(size=600 << 10)]))) == (
        "keep",
        0,
        0,
        "high",
    )
    large = Observed(flows=[flow(size=3 << 20, peak=10.0)])
    # 10/s x 20 ms x 3 frames x 1.5 = 0.9, rounded up, and one
    assert said(one("session_window", large)) == ("set a bound", 2, 2, "high")
    assert said(one("session_window", large, session_window=16.0)) == ("keep", 2, 16, "high")


def test_queues_in_the_process() -> None:
    # 20,000/s x 0.5 s x 1.5 + 1
    observed = Observed(
        sends=20_000, handover=Spread(1_000, 0.5), replies=100, reply_wait=Spread(1_000, 0.1)
    )
    assert said(one("mailbox_size", observed)) == ("raise", 15_001, 16_000, "medium")
    assert said(one("reply_backlog", observed)) == ("keep", 16, 1000, "medium")
    assert one("mailbox_size", Observed()).verdict == "too few records"


def test_timeouts_outlast_the_tail() -> None:
    observed = Observed(times={"cast": Times(10_000, 12.0, 25.0)})
    found = one("default_send_timeout", observed)
    assert said(found) == ("raise", 36, 36, "high")
    assert found.why == (
        "p99.9 of casts is 12 s, the longest took 25 s; no connection was lost in "
        "these records, which would take longer"
    )


def test_timeouts_outlast_a_change_of_the_bus() -> None:
    # 2 + 1.5 x 22 = 35, more than 3 x 2
    times = {"notification": Times(1_000, 2.0, 3.0), "call": Times(1_000, 2.0, 3.0)}
    observed = Observed(times=times, recovered=1, recovery=22.0)
    assert said(one("default_notify_timeout", observed)) == ("raise", 35, 35, "medium")
    assert said(one("[DEFAULT] rpc_response_timeout", observed)) == ("keep", 35, 60, "medium")


def test_no_timeout_is_recommended_where_many_were_late() -> None:
    found = one("default_reply_timeout", Observed(times={"reply": Times(9_990, 0.1, 9.0, late=10)}))
    assert said(found) == ("look into it", None, None, "none")
    assert found.why.startswith("10 of 10,000 replies (0.10%) were late")
    almost = Observed(times={"reply": Times(9_991, 0.1, 9.0, late=9)})
    assert said(one("default_reply_timeout", almost)) == ("keep", 1, 10, "medium")


def test_connecting() -> None:
    observed = Observed(first_connections=30, connecting=4.0)
    assert said(one("connect_timeout", observed)) == ("raise", 12, 12, "medium")
    few = one("connect_timeout", Observed(first_connections=29, connecting=4.0))
    assert few.why == "29 connections at the first attempt; 30 are needed"


def test_a_dead_peer_is_given_up_while_there_is_time() -> None:
    # 30 - 1.5 x 4 = 24
    observed = Observed(recovered=3, recovery=4.0)
    assert said(one("idle_timeout", observed)) == ("lower", 24, 24, "medium")
    assert said(one("idle_timeout", observed, idle_timeout=20.0)) == ("keep", 24, 20, "medium")
    assert said(one("idle_timeout", observed, idle_timeout=0.0)) == ("raise", 24, 24, "medium")
    # never below 10 s, however long recovery takes
    assert one("idle_timeout", Observed(recovered=3, recovery=25.0)).recommended == 10
    assert one("idle_timeout", Observed(recovered=2, recovery=4.0)).verdict == "too few records"


def test_links_in_regular_use_stay() -> None:
    long = Observed(seconds=1200, gaps=Spread(1_000, 899.0))
    assert said(one("default_sender_link_timeout", long)) == ("raise", 900, 900, "medium")
    short = one("default_sender_link_timeout", Observed(seconds=1199, gaps=Spread(1_000, 899.0)))
    assert short.verdict == "too few records"
    assert "less than twice the present value" in short.why


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (122.0, 130.0, 120.0),
        (120.0, 120.0, 120.0),
        (1.2, 1.2, 1.2),
        (0.0234, 0.024, 0.023),
        (7.0, 7.0, 7.0),
        (9999.0, 10000.0, 9900.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_two_digits_count(value: float, up: float, down: float) -> None:
    assert advice.rounded_up(value) == up
    assert advice.rounded_down(value) == down


def test_units_in_words() -> None:
    assert [advice.said(s) for s in (0.0000025, 0.0125, 1.5)] == ["2.5 us", "12.5 ms", "1.5 s"]
    assert [advice.said_bytes(b) for b in (12, 2048, 3 << 20, 5 << 30)] == [
        "12 B",
        "2 KiB",
        "3 MiB",
        "5 GiB",
    ]


def test_without_records_nothing_is_recommended() -> None:
    found = recommend(Observed())
    assert [a.option for a in found] == [
        "rpc_server_credit",
        "notify_server_credit",
        "reply_link_credit",
        "session_window",
        "mailbox_size",
        "reply_backlog",
        "default_send_timeout",
        "default_notify_timeout",
        "default_reply_timeout",
        "[DEFAULT] rpc_response_timeout",
        "connect_timeout",
        "idle_timeout",
        "default_sender_link_timeout",
    ]
    assert {(a.verdict, a.recommended, a.sure) for a in found} == {
        ("too few records", None, "none")
    }


def test_options_are_the_drivers() -> None:
    assert set(JUDGED) <= {opt.dest for opt in OPTS}
    found = defaults()
    assert (found["rpc_server_credit"], found["idle_timeout"]) == (100, 60)
    assert found["[DEFAULT] rpc_response_timeout"] == 60


def test_values_of_a_configuration(tmp_path: Any) -> None:
    path = tmp_path / "nova.conf"
    path.write_text(
        "[DEFAULT]\nrpc_response_timeout = 120\nunknown = 1\n"
        "[oslo_messaging_amqp]\nrpc_server_credit = 300\n"
    )
    assert configured([str(path)]) == {
        "rpc_server_credit": 300,
        "[DEFAULT] rpc_response_timeout": 120,
    }
    assert configured([]) == {}
    found = one("rpc_server_credit", Observed(), **{"rpc_server_credit": 300.0})
    assert (found.current, found.source) == (300, "configuration")


def test_a_configuration_that_cannot_be_used(tmp_path: Any) -> None:
    path = tmp_path / "nova.conf"
    with pytest.raises(ValueError, match=r"configuration: .*nova\.conf"):
        configured([str(path)])
    path.write_text("[oslo_messaging_amqp]\nrpc_server_credit = many\n")
    with pytest.raises(ValueError, match=r"configuration: .*rpc_server_credit"):
        configured([str(path)])
