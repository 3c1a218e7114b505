# SPDX-License-Identifier: Apache-2.0

"""Options: names and defaults, overrides in the URL, checks, hosts."""

import dataclasses
import importlib.util
import subprocess
import sys

import oslo_messaging
import pytest
from oslo_config import cfg

from amqp1_driver import options

# What operators' files may carry from the driver that was part of oslo.messaging 14.9, with
# the defaults of this driver.
KEPT = {
    "container_name": None,
    "idle_timeout": 60.0,
    "trace": False,
    "ssl": False,
    "ssl_ca_file": "",
    "ssl_cert_file": "",
    "ssl_key_file": "",
    "ssl_key_password": None,
    "ssl_verify_vhost": False,
    "sasl_mechanisms": "",
    "sasl_config_dir": "",
    "sasl_config_name": "",
    "sasl_default_realm": "",
    "connection_retry_interval": 1.0,
    "connection_retry_backoff": 2.0,
    "connection_retry_interval_max": 30.0,
    "link_retry_delay": 10.0,
    "default_reply_retry": 1,
    "default_reply_timeout": 10.0,
    "default_send_timeout": 30.0,
    "default_notify_timeout": 30.0,
    "default_sender_link_timeout": 600.0,
    "addressing_mode": "dynamic",
    "pseudo_vhost": True,
    "server_request_prefix": "exclusive",
    "broadcast_prefix": "broadcast",
    "group_request_prefix": "unicast",
    "rpc_address_prefix": "openstack.org/om/rpc",
    "notify_address_prefix": "openstack.org/om/notify",
    "multicast_address": "multicast",
    "unicast_address": "unicast",
    "anycast_address": "anycast",
    "default_notification_exchange": None,
    "default_rpc_exchange": None,
    "reply_link_credit": 200,
    "rpc_server_credit": 100,
    "notify_server_credit": 100,
    "pre_settled": frozenset(),
}
NEW = {
    "connect_timeout": 10.0,
    "host_selection": "shuffle",
    "ssl_min_version": "TLSv1.2",
    "resend_released": False,
    "redirect_hosts": (),
    "sasl_allow_insecure_mechs": True,
    "max_frame_size": 1048576,
    "reply_backlog": 1000,
    "session_window": 0,
    "max_message_size": 67108864,
    "mailbox_size": 10000,
    "blocked_warning_interval": 10.0,
    "compression": "",
    "compression_threshold": 16384,
    "queue_expiry": 1800.0,
    "notification_queue_expiry": 0.0,
    "delete_unused_queues": True,
    "rpc_queue_type": "classic",
    "notification_queue_type": "classic",
    "durable_queues": True,
    "rpc_message_ttl": 0.0,
    "notification_message_ttl": 0.0,
    "rpc_queue_max_length": 0,
    "notification_queue_max_length": 0,
    "notification_queue_max_bytes": 0,
    "queue_overflow": "reject-publish",
    "queue_delivery_limit": 0,
    "queue_replicas": 0,
    "notification_single_active_consumer": False,
    "consumer_priority": 0,
    "binding_exchange": "amq.direct",
    "duplicate_window": 1024,
    "durable": frozenset({"rpc-cast", "notify"}),
    "transport": "auto",
    "websocket_path": "/$servicebus/websocket",
    "proxy": "",
    "token_provider": "",
    "token_life": 3600.0,
    "token_scope": "entity",
    "servicebus_credit": 20,
    "servicebus_workers": 1,
    "telemetry_directory": "",
    "telemetry_format": "json",
    "telemetry_file_bytes": 67108864,
    "telemetry_file_seconds": 60.0,
    "telemetry_files_kept": 100,
    "telemetry_port": 0,
    "telemetry_ports": 32,
    "telemetry_host": "127.0.0.1",
    "telemetry_topic": "",
    "telemetry_exchange": "",
    "telemetry_queue": 50000,
}


@pytest.fixture
def conf():
    """An application's own configuration, not the global one."""
    own = cfg.ConfigOpts()
    own([])
    return own


def parse(conf, text):
    return oslo_messaging.TransportURL.parse(conf, text)


def load(conf, text="amqp://localhost", **overrides):
    options.register_opts(conf)
    for name, value in overrides.items():
        conf.set_override(name, value, group="oslo_messaging_amqp")
    return options.load(conf, parse(conf, text))


def test_importing_needs_neither_proton_nor_oslo_messaging():
    code = (
        "import sys\n"
        "for name in ('proton', 'pyngus', 'oslo_messaging', 'eventlet', 'tenacity'):\n"
        "    sys.modules[name] = None\n"
        "import amqp1_driver.options as o\n"
        "print(len(o.list_opts()[0][1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{len(KEPT) + len(NEW)}\n"), done.stderr


def by_option(settings):
    """The values of all parts by the names of the options."""
    parts = dataclasses.asdict(settings)
    telemetry = {f"telemetry_{name}": value for name, value in parts.pop("telemetry").items()}
    return {name: value for part in parts.values() for name, value in part.items()} | telemetry


def test_names_and_defaults(conf):
    assert by_option(load(conf)) == KEPT | NEW
    assert by_option(options.default_settings()) == KEPT | NEW


def test_default_settings_with_changes():
    assert options.default_settings(reply_link_credit=5).delivery.reply_link_credit == 5
    with pytest.raises(options.InvalidOption, match="possible values are rpc-cast, notify"):
        options.default_settings(durable=["rpc-call"])
    assert options.default_settings(durable=[""]).delivery.durable == frozenset()


def test_settings_are_frozen_and_floats_are_floats(conf):
    settings = load(conf, default_send_timeout=3)
    assert repr(settings.delivery.default_send_timeout) == "3.0"
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.connection.trace = True


def test_list_opts_gives_copies():
    [(group, opts)] = options.list_opts()
    assert group == "oslo_messaging_amqp"
    assert {opt.dest for opt in opts} == set(KEPT | NEW)
    assert all(opt.help for opt in opts)
    opts[0].default = "changed"
    assert options.OPTS[0].default is None


def test_registering_twice_and_as_copies_does_nothing(conf):
    options.register_opts(conf)
    options.register_opts(conf)
    for group, opts in options.list_opts():
        conf.register_opts(opts, group=group)


def test_files_of_the_old_group_and_of_the_removed_driver_are_read(tmp_path):
    path = tmp_path / "app.conf"
    path.write_text(
        "[amqp1]\nidle_timeout = 7\n"
        "[oslo_messaging_amqp]\ndefault_send_timeout = 5\ndefault_reply_retry = -1\n"
        "pre_settled = rpc-cast\npre_settled = rpc-reply\n"
    )
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(path)])
    settings = load(conf)
    assert settings.connection.idle_timeout == 7.0
    assert settings.delivery.default_send_timeout == 5.0
    assert settings.delivery.default_reply_retry == 1
    assert settings.delivery.pre_settled == frozenset({"rpc-cast", "rpc-reply"})


@pytest.mark.parametrize(("given", "meant"), [(-1, 1), (0, 0), (1, 1), (5, 1)])
def test_a_reply_is_retried_once_at_most(conf, given, meant):
    assert load(conf, default_reply_retry=given).delivery.default_reply_retry == meant


def test_the_query_of_the_url_overrides_the_configuration(conf):
    settings = load(
        conf,
        "amqp://h/?idle_timeout=0.5&rpc_server_credit=7&ssl_verify_vhost=true"
        "&pre_settled=rpc-cast,notify&sasl_mechanisms=PLAIN",
        rpc_server_credit=50,
        notify_server_credit=60,
    )
    assert settings.connection.idle_timeout == 0.5
    assert settings.delivery.rpc_server_credit == 7
    assert settings.delivery.notify_server_credit == 60
    assert settings.security.ssl_verify_vhost is True
    assert settings.delivery.pre_settled == frozenset({"rpc-cast", "notify"})
    assert settings.security.sasl_mechanisms == "PLAIN"


def test_pre_settled_repeated_in_the_url(conf):
    url = "amqp://h/?pre_settled=rpc-cast&pre_settled=rpc-call"
    assert load(conf, url).delivery.pre_settled == frozenset({"rpc-cast", "rpc-call"})


def test_hosts_of_redirects_in_configuration_and_url(conf):
    assert load(conf, redirect_hosts=["a", "b:1"]).connection.redirect_hosts == ("a", "b:1")
    connection = load(conf, "amqp://localhost/?redirect_hosts=c,*.d").connection
    assert connection.redirect_hosts == ("c", "*.d")


def test_two_urls_do_not_mix_in_one_configuration(conf):
    assert load(conf, "amqp://h/?reply_link_credit=3").delivery.reply_link_credit == 3
    assert load(conf, "amqp://h/").delivery.reply_link_credit == 200


SECRET_URL = "amqp://joe:s3cret@h1:5672,joe:s3cret@h2/vh?{query}&ssl_key_password=k3y"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("idle_timeoot", "idle_timeoot=1&ssl_key_password=***"),
        ("keys", "keys=***"),
        ("_conf", "***"),
        ("transport_url", "transport_url=1&ssl_key_password=***"),
    ],
)
def test_an_unknown_option_in_the_url_is_named_without_passwords(conf, name, shown):
    with pytest.raises(options.InvalidOption) as caught:
        load(conf, SECRET_URL.format(query=f"{name}=1"))
    assert str(caught.value) == (
        f"unknown option '{name}' in the transport URL "
        f"amqp://joe:***@h1:5672,joe:***@h2/vh?{shown}: "
        "there is no such option in group [oslo_messaging_amqp]"
    )
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, cfg.Error)


@pytest.mark.parametrize(
    "query",
    [
        "idle_timeout=soon",
        "idle_timeout=-1",
        "default_send_timeout=0",
        "rpc_server_credit=0",
        "max_frame_size=511",
        "max_frame_size=4294967296",
        "ssl=perhaps",
        "addressing_mode=artemis",
        "host_selection=best",
        "ssl_min_version=TLSv1.1",
        "compression=zip",
        "default_reply_retry=-2",
        "queue_expiry=0.5",
    ],
)
def test_a_wrong_value_in_the_url_is_named_without_passwords(conf, query):
    with pytest.raises(options.InvalidOption) as caught:
        load(conf, SECRET_URL.format(query=query))
    assert f"'{query.partition('=')[0]}'" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "k3y" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("mode", ["dynamic", "legacy", "routable", "rabbitmq"])
def test_choices_are_accepted(conf, mode):
    assert load(conf, f"amqp://h/?addressing_mode={mode}").addressing.addressing_mode == mode
    assert load(conf, "amqp://h/?compression=gzip").delivery.compression == "gzip"


def test_unknown_kinds_of_pre_settled_messages_are_named_and_ignored(conf, caplog):
    """As the removed driver did: a service must not end by that."""
    settings = load(conf, pre_settled=["rpc-kast", "a", "notify"])
    assert settings.delivery.pre_settled == frozenset({"notify"})
    assert caplog.messages == [
        "Option 'pre_settled': unknown value a, rpc-kast is ignored; "
        "possible values are rpc-call, rpc-cast, rpc-reply, notify"
    ]
    assert caplog.records[0].levelname == "WARNING"


def test_unknown_kinds_of_pre_settled_messages_in_the_url_are_ignored_too(conf, caplog):
    assert load(conf, "amqp://h/?pre_settled=rpc-kast").delivery.pre_settled == frozenset()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("size", [0, 65536, 67108864, 1 << 40])
def test_messages_may_be_bounded_by_64_kib_or_more_or_not_at_all(conf, size):
    assert load(conf, max_message_size=size).delivery.max_message_size == size


@pytest.mark.parametrize("size", [1, 65535])
def test_a_smaller_bound_for_messages_is_refused(conf, size):
    with pytest.raises(options.InvalidOption, match="'max_message_size' must be 0 or at least 65"):
        load(conf, max_message_size=size)


def test_an_empty_container_name_is_none(conf):
    assert load(conf, container_name="").connection.container_name is None
    assert load(conf, container_name="me").connection.container_name == "me"


def test_a_text_option_overridden_by_none_is_empty(conf):
    assert load(conf, sasl_mechanisms=None).security.sasl_mechanisms == ""


def test_a_key_without_a_certificate_is_refused(conf, tmp_path):
    key = tmp_path / "key.pem"
    key.touch()
    with pytest.raises(options.InvalidOption, match=r"'ssl_key_file' .* 'ssl_cert_file' is not"):
        load(conf, ssl_key_file=str(key))


@pytest.mark.parametrize("name", ["ssl_ca_file", "ssl_cert_file"])
def test_a_missing_file_is_named(conf, tmp_path, name):
    path = str(tmp_path / "none.pem")
    with pytest.raises(options.InvalidOption) as caught:
        load(conf, **{name: path})
    assert str(caught.value) == f"option '{name}': there is no file {path}"


def test_a_missing_key_file_and_a_missing_directory_are_named(conf, tmp_path):
    cert = tmp_path / "cert.pem"
    cert.touch()
    with pytest.raises(options.InvalidOption, match="'ssl_key_file'"):
        load(conf, ssl_cert_file=str(cert), ssl_key_file=str(tmp_path / "none"))
    with pytest.raises(options.InvalidOption, match="'sasl_config_dir'"):
        load(conf, ssl_cert_file="", ssl_key_file="", sasl_config_dir=str(tmp_path / "none"))


def test_existing_files_turn_tls_on(conf, tmp_path):
    path = tmp_path / "x.pem"
    path.touch()
    assert load(conf).tls is False
    assert load(conf, "amqp://h/?ssl=true").tls is True
    assert load(conf, f"amqp://h/?ssl_ca_file={path}").tls is True
    files = load(conf, ssl_cert_file=str(path), ssl_key_file=str(path), sasl_config_dir=tmp_path)
    assert files.tls is True


def test_the_key_password_is_not_shown(conf):
    settings = load(conf, "amqp://h/?ssl_key_password=k3y")
    assert settings.security.ssl_key_password == "k3y"
    assert "k3y" not in repr(settings)


def test_hosts_in_the_order_written(conf):
    text = "amqp://u1:p1@h1:1111,u2:p2@h2,h3/"
    assert options.hosts(parse(conf, text), load(conf)) == (
        options.Host("h1", 1111, "u1", "p1"),
        options.Host("h2", 5672, "u2", "p2"),
        options.Host("h3", 5672, None, None),
    )


def test_an_ipv6_host(conf):
    # first and alone: urlsplit() of Python 3.11.2 takes brackets nowhere else
    assert options.hosts(parse(conf, "amqp://[::1]:3333/"), load(conf)) == (
        options.Host("::1", 3333, None, None),
    )


def test_default_port_with_tls_and_default_host(conf):
    plain, tls = load(conf), load(conf, "amqp://h/?ssl=true")
    assert options.hosts(parse(conf, "amqp://"), plain) == (options.Host("localhost", 5672),)
    assert options.hosts(parse(conf, "amqp:///vh"), tls) == (options.Host("localhost", 5671),)
    assert options.hosts(parse(conf, "amqp://h,:99"), tls) == (
        options.Host("h", 5671),
        options.Host("localhost", 99),
    )


def test_the_realm_is_added_to_users_without_one(conf):
    settings = load(conf, sasl_default_realm="R")
    found = options.hosts(parse(conf, "amqp://a:p@h1,b%40OWN:p@h2,h3"), settings)
    assert [host.username for host in found] == ["a@R", "b@OWN", None]


def test_text_of_a_host_has_no_credentials():
    host = options.Host("h1", 5672, "joe", "s3cret")
    assert str(host) == "h1:5672"
    assert str(options.Host("fe80::1", 5671)) == "[fe80::1]:5671"
    assert "s3cret" not in repr(host)


@pytest.mark.parametrize(
    ("text", "vhost"),
    [("amqp://h", None), ("amqp://h/", None), ("amqp://h/a%2Fb", "a/b"), ("amqp://h//", "/")],
)
def test_virtual_host(conf, text, vhost):
    assert options.virtual_host(parse(conf, text)) == vhost


def test_redacted_url(conf):
    url = parse(conf, "amqp+oslo://joe:s3cret@/vh?ssl_key_password=k3y&ssl=1")
    assert options.redacted(url) == "amqp+oslo://joe:***@/vh?ssl_key_password=***"
    assert options.redacted(parse(conf, "amqp://h:1,g")) == "amqp://h:1,g/"


@pytest.mark.parametrize("host", ["a\x00b", "a\udc80b"])
def test_a_url_that_can_not_be_written_is_redacted_as_a_whole(conf, host):
    assert options.redacted(parse(conf, f"amqp://user:secret@{host}/")) == "amqp://***"


def test_default_exchange(conf):
    assert options.default_exchange_for(conf) is None
    parse(conf, "amqp://h")  # registers the options of the transport
    assert options.default_exchange_for(conf) == "openstack"
    conf.set_override("control_exchange", "nova")
    assert options.default_exchange_for(conf) == "nova"
    conf.set_override("control_exchange", "")
    assert options.default_exchange_for(conf) is None


def test_groups_of_oslo_messaging_are_registered_with_an_own_configuration(conf):
    with pytest.raises(cfg.NoSuchOptError):
        _ = conf.oslo_messaging_metrics
    options.register_upstream_groups(conf)
    options.register_upstream_groups(conf)
    assert conf.oslo_messaging_metrics.metrics_enabled is False
    options.register_upstream_groups(cfg.CONF)


def test_an_application_that_has_defined_such_a_group_keeps_it(conf):
    own = cfg.StrOpt("metrics_enabled", default="own")
    conf.register_opt(own, group="oslo_messaging_metrics")
    options.register_upstream_groups(conf)
    assert conf.oslo_messaging_metrics.metrics_enabled == "own"
    assert conf.oslo_messaging_metrics.metrics_buffer_size == 1000


# -- Azure Service Bus, WebSocket, proxy ---------------------------------------------------------

AZURE = "amqp://rule:k%2Fey=@ns.servicebus.windows.net/"


@pytest.mark.parametrize(
    "name",
    [
        "ns.servicebus.windows.net",
        "NS.ServiceBus.Windows.Net",
        "ns.servicebus.windows.net.",
        "ns.servicebus.usgovcloudapi.net",
        "ns.servicebus.chinacloudapi.cn",
    ],
)
def test_service_bus_is_known_by_its_name_and_has_tls(conf, name):
    url = f"amqp://rule:key@{name}/"
    settings = load(conf, url)
    assert (settings.addressing.addressing_mode, settings.tls) == ("servicebus", True)
    assert [host.port for host in options.hosts(parse(conf, url), settings)] == [5671]


@pytest.mark.parametrize(
    "url",
    [
        "amqp://rule:key@servicebus.windows.net.example.org/",
        "amqp://",
        "amqp://rule:key@ns.servicebus.windows.net,rule:key@other/",
    ],
)
def test_what_is_not_service_bus_by_its_name(conf, url):
    assert load(conf, url).addressing.addressing_mode == "dynamic"


def test_an_addressing_mode_that_was_chosen_stays(conf):
    assert load(conf, AZURE + "?addressing_mode=legacy").addressing.addressing_mode == "legacy"


def test_the_key_is_taken_from_the_url(conf):
    [host] = options.hosts(parse(conf, AZURE), load(conf, AZURE))
    assert (host.username, host.password) == ("rule", "k/ey=")


@pytest.mark.parametrize("user", ["", "rule@", "rule:@"])
def test_service_bus_needs_a_key_or_a_provider(conf, user):
    url = f"amqp://{user}ns.servicebus.windows.net/"
    with pytest.raises(options.InvalidOption, match="name and the key"):
        options.hosts(parse(conf, url), load(conf, url))
    settings = load(conf, url + "?token_provider=a.b:c")
    assert len(options.hosts(parse(conf, url), settings)) == 1


@pytest.mark.parametrize(
    ("url", "port", "websocket", "tls"),
    [
        ("amqp://h/?transport=websocket", 443, True, True),
        ("amqp://h:8443/?transport=websocket", 8443, True, True),
        ("amqp://h:443/", 443, True, False),  # TLS is for the host, see the port
        ("amqp://h:443/?transport=tcp", 443, False, False),
        ("amqp://h/", 5672, False, False),
    ],
)
def test_what_carries_amqp(conf, url, port, websocket, tls):
    settings = load(conf, url)
    [host] = options.hosts(parse(conf, url), settings)
    assert (host.port, settings.tunnel.websocket(host.port), settings.tls) == (port, websocket, tls)


def test_a_proxy():
    proxy = options.parse_proxy("http://us%40er:p%2Fw@proxy.example:3128/")
    assert (proxy.hostname, proxy.port) == ("proxy.example", 3128)
    assert (proxy.username, proxy.password) == ("us@er", "p/w")
    assert "p/w" not in repr(proxy)
    assert str(options.parse_proxy("http://[::1]:3128")) == "[::1]:3128"
    assert options.parse_proxy("") is None


@pytest.mark.parametrize(
    "url",
    [
        "proxy:3128",
        "http://proxy",
        "https://proxy:3128",
        "http://u:secret@proxy:x",
        "http://:80",
        "http://u:secret@proxy:3128/path",
    ],
)
def test_a_proxy_that_can_not_be_understood(url):
    with pytest.raises(options.InvalidOption, match="option 'proxy': a proxy") as caught:
        options.default_settings(proxy=url)
    assert "secret" not in str(caught.value)


def test_a_path_that_is_none():
    with pytest.raises(options.InvalidOption, match="websocket_path"):
        options.default_settings(websocket_path="ws")


@pytest.mark.parametrize(
    "query, package, text",
    [
        (
            "telemetry_port=9100",
            "prometheus_client",
            r"'telemetry_port' needs the package prometheus_client: .*amqp1-driver\[telemetry\]",
        ),
        (
            "telemetry_directory=/var/lib/t&telemetry_format=parquet",
            "pyarrow",
            r"'telemetry_format' needs the package pyarrow: .*amqp1-driver\[telemetry-parquet\]",
        ),
    ],
)
def test_a_package_that_telemetry_needs_is_named(conf, monkeypatch, query, package, text):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else real(name)
    )
    with pytest.raises(options.InvalidOption, match=text):
        load(conf, f"amqp://localhost/?{query}")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, False),
        ({"telemetry_queue": 7, "telemetry_exchange": "x"}, False),
        ({"telemetry_directory": "/tmp/events"}, True),
        ({"telemetry_port": "9000"}, True),
        ({"telemetry_topic": "metrics"}, True),
    ],
)
def test_telemetry_is_wanted_once_it_has_somewhere_to_go(changes, wanted):
    assert options.default_settings(**changes).telemetry.wanted is wanted


def test_an_endpoint_of_telemetry_has_an_address(conf):
    with pytest.raises(options.InvalidOption, match="'telemetry_host' is empty"):
        load(conf, "amqp://localhost/?telemetry_port=9100", telemetry_host="")
