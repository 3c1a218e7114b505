# SPDX-License-Identifier: Apache-2.0

"""Errors, their text, and what oslo.messaging is told about them."""

import logging
import pickle

import pytest
from oslo_messaging import exceptions as oslo

from amqp1_driver import exceptions as ex

ALL = [
    kind
    for kind in vars(ex).values()
    if isinstance(kind, type) and issubclass(kind, ex.AmqpError) and kind.__name__[0] != "_"
]


def test_every_agreed_class_exists():
    assert {kind.__name__ for kind in ALL} == {
        "AmqpError",
        "ConnectionFailed",
        "ConnectionLost",
        "AuthenticationFailed",
        "TlsFailed",
        "SessionEnded",
        "LinkFailed",
        "DeliveryRejected",
        "DeliveryReleased",
        "DeliveryModified",
        "InDoubt",
        "MessageTooLarge",
        "DeadlineExpired",
        "LoopDied",
        "Closed",
        "DecodeError",
        "UnsupportedFeature",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, with \\ and \u00e4 \u65e5", "plain text, with \\ and \u00e4 \u65e5"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\u202egnp.exe \u2028 \u200b", "\\u202egnp.exe \\u2028 \\u200b"),
        ("\ud800 \U000e0001", "\\ud800 \\U000e0001"),
        (b"a\xffb\n", "a\\xffb\\n"),
        (memoryview(b"amqp"), "amqp"),
        (ValueError("a\nb"), "ValueError('a\\nb')"),
        (17, "17"),
        (None, "None"),
    ],
)
def test_a_text_from_outside_is_one_printable_line(text, shown):
    assert ex.printable(text) == shown


def test_a_text_from_outside_is_bounded():
    assert ex.printable("x" * 1000) == "x" * 1000
    assert ex.printable("x" * 1001) == "x" * 1000 + "... (1001 characters)"
    assert ex.printable("abc", 2) == "ab... (3 characters)"
    assert len(ex.printable("\x00" * 100000)) < 5000
    assert len(ex.printable(b"\xff" * 100000)) < 5000


def test_the_text_of_an_error_is_one_line_whatever_the_peer_has_put_into_it():
    error = ex.LinkFailed(
        "it said \x1b[2J",
        host="h:1",
        address="a\nb",
        message_id="\r",
        condition="amqp:\x00",
        description="x" * 5000,
    )
    assert str(error) == (
        "it said \\x1b[2J (host=h:1, address=a\\nb, message-id=\\r, condition=amqp:\\x00, "
        "description=" + "x" * 1000 + "... (5000 characters))"
    )
    assert (error.address, error.condition, error.description) == ("a\nb", "amqp:\x00", "x" * 5000)


def test_a_log_line_is_one_line_whatever_the_peer_has_put_into_it(caplog):
    log = ex.logger("amqp1_driver.of_a_test")
    assert ex.logger("amqp1_driver.of_a_test") is log
    with caplog.at_level(logging.INFO):
        log.info("%s has %d of %s", "a\nb", 17, ["c\nd"])
        log.info("no arguments,\nas written")
        log.info("%(name)s", {"name": "x"})
    assert [record.getMessage() for record in caplog.records] == [
        "a\\nb has 17 of ['c\\nd']",
        "no arguments,\nas written",
        "x",
    ]


def test_an_object_without_words_has_some():
    class Mute:
        def __str__(self):
            raise KeyError

    assert ex.printable(Mute()) == "<Mute without words: KeyError>"


@pytest.mark.parametrize("kind", ALL)
def test_an_error_without_arguments_still_says_something(kind):
    assert len(str(kind())) > 5
    assert str(kind()) == kind.summary
    assert str(kind("own words")) == "own words"


def test_text_names_the_fields_that_are_set_and_no_others():
    error = ex.LinkFailed(
        host="h1:5672",
        address="a/b",
        message_id=7,
        condition="amqp:not-found",
        description="no such node",
    )
    assert str(error) == (
        "link failed (host=h1:5672, address=a/b, message-id=7, condition=amqp:not-found, "
        "description=no such node)"
    )
    assert str(ex.ConnectionFailed("refused", host="h1:5672")) == "refused (host=h1:5672)"
    assert str(ex.Closed(description="")) == "closed"


def test_message_id_zero_is_shown():
    assert str(ex.InDoubt(message_id=0)).endswith("(message-id=0)")


@pytest.mark.parametrize("kind", ALL)
def test_errors_survive_pickling(kind):
    copy = pickle.loads(pickle.dumps(kind("text", host="h:1", condition="c")))
    assert type(copy) is kind
    assert str(copy) == "text (host=h:1, condition=c)"


def test_fields_of_single_classes():
    assert ex.ConnectionLost().in_doubt is False
    assert ex.ConnectionLost(in_doubt=True).in_doubt is True
    assert ex.InDoubt().in_doubt is True
    modified = ex.DeliveryModified(failed=True, undeliverable=True, address="a")
    assert (modified.failed, modified.undeliverable, modified.address) == (True, True, "a")
    expired = ex.DeadlineExpired(stage="credit", address="a")
    assert expired.stage == "credit"
    assert str(expired) == "timed out waiting for credit (address=a)"
    assert str(ex.DeadlineExpired("late", stage="reply")) == "late"
    decode = ex.DecodeError("bad type code", offset=12)
    assert decode.offset == 12
    assert str(decode) == "bad type code at byte 12"
    assert str(ex.DecodeError(offset=0)) == "message cannot be decoded at byte 0"
    assert ex.DecodeError("not JSON").offset is None


# AMQP 1.0: 2.8.15 (amqp:), 2.8.16 (connection), 2.8.17 (session), 2.8.18 (link)
@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("amqp:unauthorized-access", ex.AuthenticationFailed),
        ("amqp:not-implemented", ex.UnsupportedFeature),
        ("amqp:connection:forced", ex.ConnectionLost),
        ("amqp:connection:framing-error", ex.ConnectionLost),
        ("amqp:connection:redirect", ex.ConnectionLost),
        ("amqp:session:window-violation", ex.SessionEnded),
        ("amqp:session:errant-link", ex.SessionEnded),
        ("amqp:session:handle-in-use", ex.SessionEnded),
        ("amqp:session:unattached-handle", ex.SessionEnded),
        ("amqp:link:detach-forced", ex.LinkFailed),
        ("amqp:link:transfer-limit-exceeded", ex.LinkFailed),
        ("amqp:link:message-size-exceeded", ex.LinkFailed),
        ("amqp:link:redirect", ex.LinkFailed),
        ("amqp:link:stolen", ex.LinkFailed),
    ],
)
def test_condition_decides_the_class(condition, kind):
    for place in (ex.ConnectionLost, ex.SessionEnded, ex.LinkFailed, ex.ConnectionFailed):
        error = ex.from_condition(condition, "text", default=place, host="h:1")
        assert type(error) is kind
        assert (error.condition, error.description, error.host) == (condition, "text", "h:1")


@pytest.mark.parametrize("condition", ["amqp:internal-error", "amqp:not-found", "vendor:own", None])
@pytest.mark.parametrize("place", [ex.ConnectionLost, ex.SessionEnded, ex.LinkFailed])
def test_general_and_unknown_conditions_take_the_class_of_their_place(condition, place):
    assert type(ex.from_condition(condition, default=place)) is place


def test_the_place_is_a_link_unless_told():
    assert type(ex.from_condition("amqp:resource-deleted")) is ex.LinkFailed


@pytest.mark.parametrize("condition", ["amqp:unauthorized-access", "amqp:link:stolen", None])
def test_an_outcome_of_a_delivery_stays_one(condition):
    for outcome in (ex.DeliveryRejected, ex.DeliveryReleased, ex.DeliveryModified):
        assert type(ex.from_condition(condition, default=outcome)) is outcome


def test_in_doubt_is_kept_where_it_means_something():
    lost = ex.from_condition("amqp:connection:forced", default=ex.ConnectionLost, in_doubt=True)
    assert lost.in_doubt is True
    refused = ex.from_condition(
        "amqp:unauthorized-access", default=ex.ConnectionLost, in_doubt=True
    )
    assert type(refused) is ex.AuthenticationFailed


@pytest.mark.parametrize(
    "error",
    [
        ex.ConnectionFailed(),
        ex.ConnectionLost(),
        ex.SessionEnded(condition="amqp:internal-error"),
        ex.LinkFailed(),
        ex.LinkFailed(condition="amqp:not-found"),
        ex.DeliveryReleased(),
        ex.DeliveryModified(),
        ex.DeliveryRejected(condition="amqp:not-found"),
        ex.DeliveryRejected(condition="amqp:resource-limit-exceeded"),
    ],
)
def test_recoverable(error):
    assert ex.recoverable(error) is True


@pytest.mark.parametrize(
    "error",
    [
        ex.ConnectionLost(in_doubt=True),
        ex.SessionEnded(in_doubt=True),
        ex.LinkFailed(in_doubt=True),
        ex.LinkFailed(condition="amqp:not-allowed"),
        ex.LinkFailed(condition="amqp:invalid-field"),
        ex.LinkFailed(condition="amqp:link:message-size-exceeded"),
        ex.SessionEnded(condition="amqp:decode-error"),
        ex.LinkFailed(condition="amqp:not-implemented"),
        ex.DeliveryModified(failed=True),
        ex.DeliveryModified(undeliverable=True),
        ex.DeliveryRejected(),
        ex.DeliveryRejected(condition="amqp:precondition-failed"),
        ex.InDoubt(),
        ex.too_large(6, 5),
        ex.AuthenticationFailed(),
        ex.TlsFailed(),
        ex.DeadlineExpired(),
        ex.LoopDied(),
        ex.Closed(),
        ex.DecodeError(),
        ex.UnsupportedFeature(),
        ValueError(),
    ],
)
def test_not_recoverable(error):
    assert ex.recoverable(error) is False


def test_expired_deadline_of_the_application_is_a_messaging_timeout():
    error = ex.DeadlineExpired(stage="reply", host="h:1", address="a", message_id="m")
    result = ex.to_oslo(error, with_timeout=True, at_least_once=True)
    assert type(result) is oslo.MessagingTimeout
    assert str(result) == "timed out waiting for reply (host=h:1, address=a, message-id=m)"


def test_expired_deadline_of_the_driver_is_a_delivery_failure():
    result = ex.to_oslo(ex.DeadlineExpired(stage="credit"), with_timeout=False)
    assert type(result) is oslo.MessageDeliveryFailure


@pytest.mark.parametrize(
    "error",
    [
        ex.DeliveryReleased(),
        ex.DeliveryRejected(condition="amqp:not-found"),
        ex.LinkFailed(condition="amqp:not-found"),
    ],
)
def test_nobody_there_is_undeliverable_when_at_least_once_was_asked(error):
    result = ex.to_oslo(
        error,
        with_timeout=True,
        at_least_once=True,
        exchange="nova",
        routing_key="compute.host1",
        message={"method": "m"},
    )
    assert type(result) is oslo.MessageUndeliverable
    assert result.exception is error
    assert (result.exchange, result.routing_key) == ("nova", "compute.host1")
    assert result.message == {"method": "m"}
    failure = ex.to_oslo(error, with_timeout=True)
    assert type(failure) is oslo.MessageDeliveryFailure


@pytest.mark.parametrize(
    "error",
    [
        ex.DeliveryRejected(condition="amqp:precondition-failed"),
        ex.DeliveryModified(failed=True),
        ex.InDoubt(),
        ex.ConnectionFailed(condition="amqp:not-found"),
        ex.LoopDied(),
        RuntimeError("odd"),
    ],
)
def test_the_rest_is_a_delivery_failure(error):
    result = ex.to_oslo(error, with_timeout=True, at_least_once=True)
    assert type(result) is oslo.MessageDeliveryFailure
    assert str(result) == str(error)


def test_an_error_without_text_is_named():
    assert str(ex.to_oslo(KeyError(), with_timeout=False)) == "KeyError()"


def test_an_error_that_fails_many_messages_names_each_in_a_copy():
    cause = OSError("refused")
    error = ex.ConnectionLost("gone", host="bus:5672", in_doubt=True)
    error.__cause__ = cause
    one, other = error.for_message("address", "1"), error.for_message(None, "2")
    assert str(one) == "gone (host=bus:5672, address=address, message-id=1)"
    assert str(other) == "gone (host=bus:5672, message-id=2)"
    assert (type(one), one.in_doubt, one.__cause__) == (ex.ConnectionLost, True, cause)
    assert str(error) == "gone (host=bus:5672)"


def test_an_error_about_a_message_stays_about_it():
    error = ex.InDoubt(address="address", message_id="1")
    assert error.for_message("other", "2") is error


def test_a_redirect_that_is_not_followed_says_why_and_stays_what_it_is():
    error = ex.LinkFailed(host="h:1", address="q", condition="amqp:link:redirect")
    told = ex.redirect_refused(error, "it leads in a circle")
    assert type(told) is ex.LinkFailed
    assert str(told) == (
        "link failed; the redirect is not followed: it leads in a circle "
        "(host=h:1, address=q, condition=amqp:link:redirect)"
    )
    assert str(error) == "link failed (host=h:1, address=q, condition=amqp:link:redirect)"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (ex.ConnectionLost, ex.ConnectionLost),
        (ex.ConnectionFailed, ex.ConnectionFailed),
        (ex.SessionEnded, ex.SessionEnded),
        (ex.LinkFailed, ex.LinkFailed),
        (ex.DeliveryRejected, ex.DeliveryRejected),
    ],
)
def test_an_unknown_condition_takes_the_class_of_its_place(place, kind):
    error = ex.from_condition("vendor:strange", "odd", default=place, host="h:1")
    assert type(error) is kind
    assert (error.condition, error.description) == ("vendor:strange", "odd")


@pytest.mark.parametrize(
    ("place", "again"),
    [
        (ex.ConnectionLost, True),
        (ex.ConnectionFailed, True),
        (ex.SessionEnded, True),
        (ex.LinkFailed, True),
        (ex.DeliveryRejected, False),
    ],
)
def test_what_has_an_unknown_condition_is_tried_again_but_no_rejected_message(place, again):
    assert ex.recoverable(ex.from_condition("vendor:strange", default=place)) is again


def test_a_message_that_is_too_large_names_its_size_and_the_limit():
    error = ex.too_large(5001, 5000, address="queue", message_id="m1")
    assert str(error) == (
        "message of 5001 bytes is larger than the 5000 bytes that may be sent (option "
        "max_message_size here, or the limit of the peer) (address=queue, message-id=m1)"
    )
    assert type(ex.to_oslo(error, with_timeout=True)) is oslo.MessageDeliveryFailure
