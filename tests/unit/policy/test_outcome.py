# SPDX-License-Identifier: Apache-2.0

"""What follows from each outcome (AMQP 1.0 section 3.4)."""

import itertools

import pytest

from amqp1_driver import exceptions
from amqp1_driver.policy.outcome import Action, Disposition, Outcome, decide
from amqp1_driver.policy.retry import Retry

FOREVER, NEVER = Retry.of(None), Retry.of(0)
RELEASED = Disposition(Outcome.RELEASED)
MODIFIED = Disposition(Outcome.MODIFIED)


def choose(disposition, *, resend_released=True, retry=FOREVER, expired=False, **fields):
    return decide(
        disposition, resend_released=resend_released, retry=retry, expired=expired, **fields
    )


def test_accepted_is_done():
    for resend, retry, expired in itertools.product((True, False), (FOREVER, NEVER), (True, False)):
        decision = choose(
            Disposition(Outcome.ACCEPTED), resend_released=resend, retry=retry, expired=expired
        )
        assert decision.action is Action.DONE
        assert decision.error is None


@pytest.mark.parametrize("disposition", [RELEASED, MODIFIED])
def test_untouched_messages_are_sent_again_only_within_option_retries_and_deadline(disposition):
    assert choose(disposition).action is Action.RESEND
    assert choose(disposition, resend_released=False).action is Action.FAIL
    assert choose(disposition, retry=NEVER).action is Action.FAIL
    assert choose(disposition, expired=True).action is Action.FAIL


@pytest.mark.parametrize(
    "disposition",
    [
        Disposition(Outcome.REJECTED),
        Disposition(Outcome.IN_DOUBT),
        Disposition(Outcome.MODIFIED, failed=True),
        Disposition(Outcome.MODIFIED, undeliverable=True),
        Disposition(Outcome.MODIFIED, failed=True, undeliverable=True),
    ],
    ids=str,
)
def test_other_messages_are_never_sent_again(disposition):
    assert choose(disposition).action is Action.FAIL


@pytest.mark.parametrize(
    ("disposition", "kind"),
    [
        (Disposition(Outcome.REJECTED), exceptions.DeliveryRejected),
        (RELEASED, exceptions.DeliveryReleased),
        (MODIFIED, exceptions.DeliveryModified),
        (Disposition(Outcome.IN_DOUBT), exceptions.InDoubt),
    ],
)
def test_each_failure_has_its_error_with_the_details_given(disposition, kind):
    error = choose(disposition, host="h:5672", address="q", message_id="m").error
    assert type(error) is kind
    assert (error.host, error.address, error.message_id) == ("h:5672", "q", "m")


def test_a_rejection_carries_the_condition():
    error = choose(
        Disposition(Outcome.REJECTED, condition="amqp:not-found", description="no such exchange")
    ).error
    assert error.condition == "amqp:not-found"
    assert error.description == "no such exchange"


def test_a_modification_carries_its_flags():
    error = choose(Disposition(Outcome.MODIFIED, failed=True)).error
    assert (error.failed, error.undeliverable) == (True, False)
    error = choose(Disposition(Outcome.MODIFIED, undeliverable=True)).error
    assert (error.failed, error.undeliverable) == (False, True)


@pytest.mark.parametrize(
    ("disposition", "action"),
    [
        (RELEASED, Action.DONE),
        (Disposition(Outcome.REJECTED, condition="amqp:not-found"), Action.DONE),
        (Disposition(Outcome.REJECTED, condition="amqp:not-allowed"), Action.FAIL),
        (Disposition(Outcome.REJECTED), Action.FAIL),
        (Disposition(Outcome.MODIFIED, failed=True), Action.FAIL),
        (Disposition(Outcome.IN_DOUBT), Action.FAIL),
        (Disposition(Outcome.ACCEPTED), Action.DONE),
    ],
    ids=str,
)
def test_that_nobody_took_what_is_for_whoever_is_there_is_no_failure(disposition, action):
    decision = choose(disposition, best_effort=True)
    assert (decision.action, decision.error is None) == (action, action is Action.DONE)
    if action is Action.DONE and disposition.outcome is not Outcome.ACCEPTED:
        assert choose(disposition, resend_released=False).action is Action.FAIL
