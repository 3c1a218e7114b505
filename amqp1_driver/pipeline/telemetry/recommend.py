# SPDX-License-Identifier: Apache-2.0

"""The list of all recommendations, and the present values of the options.  Any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amqp1_driver.pipeline.telemetry import credit, timeouts
from amqp1_driver.pipeline.telemetry.advice import Advice, Known
from amqp1_driver.pipeline.telemetry.observed import Observed

#: options of the driver that the recommendations read or judge -> unit
JUDGED = {
    "rpc_server_credit": "messages",
    "notify_server_credit": "messages",
    "reply_link_credit": "messages",
    "session_window": "frames",
    "mailbox_size": "messages",
    "reply_backlog": "messages",
    "default_send_timeout": "s",
    "default_notify_timeout": "s",
    "default_reply_timeout": "s",
    "connect_timeout": "s",
    "idle_timeout": "s",
    "default_sender_link_timeout": "s",
    "max_frame_size": "bytes",
}
#: an option of oslo.messaging itself, and its default
RESPONSE, RESPONSE_DEFAULT = "[DEFAULT] rpc_response_timeout", 60.0


def defaults() -> dict[str, float]:
    """Return the default values of the options."""
    from amqp1_driver.options import OPTS

    found = {option.dest: float(option.default) for option in OPTS if option.dest in JUDGED}
    return {**found, RESPONSE: RESPONSE_DEFAULT}


def configured(files: Sequence[str]) -> dict[str, float]:
    """Return the values that the configuration files of a service set.

    :returns: values by option; options that the files do not set are absent
    :raises ValueError: a file cannot be read or has a wrong value
    """
    if not files:
        return {}
    from oslo_config import cfg

    from amqp1_driver.options import GROUP, register_opts

    conf = cfg.ConfigOpts()
    register_opts(conf)
    conf.register_opts([cfg.FloatOpt("rpc_response_timeout")])
    try:
        conf([], project="amqp1", default_config_files=list(files), default_config_dirs=[])
        values: dict[str, Any] = {
            name: conf[GROUP][name] for name in JUDGED if _was_set(conf, name, GROUP)
        }
        values[RESPONSE] = conf.rpc_response_timeout
    except cfg.Error as error:
        raise ValueError(f"configuration: {error}") from None
    return {name: float(value) for name, value in values.items() if value is not None}


def _was_set(conf: Any, name: str, group: str) -> bool:
    location = conf.get_location(name, group=group)
    return location is not None and location.location.name != "opt_default"


def recommend(
    observed: Observed,
    current: Mapping[str, float] | None = None,
    default: Mapping[str, float] | None = None,
) -> list[Advice]:
    """Return one recommendation for each option.

    :param current: values by option that the service's configuration sets
    :param default: values of all other options; None: :func:`defaults`
    """
    known, fallback = current or {}, default if default is not None else defaults()

    def look(option: str) -> Known:
        unit = JUDGED.get(option, "s")
        if option in known:
            return Known(option, known[option], "configuration", unit)
        return Known(option, fallback[option], "default", unit)

    return [
        credit.subscriptions("rpc_server_credit", "rpc", observed, look),
        credit.subscriptions("notify_server_credit", "notify", observed, look),
        credit.reply_link(observed, look),
        credit.session_window(observed, look),
        *credit.queues(observed, look),
        *timeouts.messages(observed, look),
        timeouts.connect(observed, look),
        timeouts.idle(observed, look),
        timeouts.sender_links(observed, look),
    ]
