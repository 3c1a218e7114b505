# SPDX-License-Identifier: Apache-2.0

"""Which test stands for which statement of the contract.

The statements are those of the project's contract document, section by section and line by line;
the tests are functions of this directory.  ``test_mapping`` checks that every one exists and that
no test is left without a statement.
"""

Table = dict[str, tuple[str, ...]]

LOADING: Table = {
    "the wheel holds what its page says": (
        "test_one_package_and_no_tests",
        "test_all_modules_and_what_they_read",
        "test_the_modules_in_c",
        "test_the_entry_points",
        "test_the_page_for_operators_has_a_row_for_each_part_beside_the_driver",
    ),
    "releases up to 15.x have an entry point of their own: require 16": (
        "test_releases_with_an_entry_point_of_their_own_are_excluded",
    ),
    "amqp:// and amqp+x:// load the same entry point": (
        "test_every_scheme_that_begins_with_amqp_loads_this_driver",
        "test_the_entry_point_is_that_of_the_package",
    ),
    "never connect in __init__": ("test_making_a_transport_connects_nothing_and_starts_no_thread",),
    "transport.conf is driver.conf": ("test_the_transports_conf_is_the_applications",),
    "metrics and tracing groups are registered when absent": (
        "test_an_application_with_a_conf_of_its_own_can_call",
        "test_the_metrics_and_tracing_groups_are_registered",
        "test_groups_which_the_application_has_registered_stay_as_they_are",
    ),
    "URL query overrides; unknown keys fail at load": (
        "test_an_option_of_the_url_overrides_the_configuration",
        "test_an_unknown_option_in_the_url_fails_at_load_with_its_name",
        "test_a_wrong_value_in_the_url_fails_at_load_with_the_options_name",
    ),
    "oslo.config.opts entry point, importable without proton; names and defaults as known": (
        "test_the_option_names_and_defaults_are_those_of_operators_files",
        "test_the_option_list_is_a_copy",
        "test_the_options_entry_point_works_without_proton",
    ),
    "_drivers is imported in one module": (
        "test_private_parts_of_oslo_messaging_are_imported_in_one_module",
    ),
    "several transports in a process": (
        "test_several_transports_live_in_one_process",
        "test_one_transport_closed_leaves_the_others_alone",
        "test_message_ids_are_unique_among_transports",
    ),
    "require_features": ("test_both_kinds_of_transport_have_what_their_users_require",),
}

SENDING: Table = {
    "retry None or -1 for ever": (
        "test_without_a_limit_of_retries_a_message_waits_for_the_bus",
        "test_what_was_not_sent_when_the_connection_went_is_sent_over_the_next",
    ),
    "retry 0 never": ("test_with_retry_0_the_first_failure_ends_it",),
    "retry N times": (
        "test_with_retry_n_a_refused_link_is_tried_n_times_more",
        "test_resend_released_keeps_to_the_retries",
    ),
    "only for recoverable failures": (
        "test_a_failure_that_no_retry_can_mend_ends_it_at_once",
        "test_resend_released_sends_nothing_else_again",
    ),
    "in doubt = fail, never duplicated": (
        "test_a_message_in_doubt_fails_and_is_never_sent_again",
        "test_a_message_that_nobody_waits_for_any_more_is_not_sent",
    ),
    "timeout -> MessagingTimeout": (
        "test_a_call_ends_with_messaging_timeout_when_its_timeout_is_over",
        "test_a_timeout_says_what_was_waited_for",
    ),
    "otherwise MessageDeliveryFailure": (
        "test_without_a_timeout_of_the_caller_it_is_a_delivery_failure",
        "test_a_notification_has_a_timeout_of_its_own",
        "test_callers_that_wait_when_the_transport_is_cleaned_up_fail_at_once",
    ),
    "at_least_once and nobody there -> MessageUndeliverable": (
        "test_at_least_once_and_nobody_there_is_message_undeliverable",
        "test_at_least_once_and_the_message_comes_back_is_message_undeliverable",
        "test_at_least_once_and_somebody_there_is_an_ordinary_call",
    ),
    "ctxt verbatim with unknown keys": (
        "test_the_context_is_carried_verbatim_with_unknown_keys",
        "test_the_context_of_a_notification_is_carried_verbatim",
    ),
    "send_notification: version 2.0 is an envelope": (
        "test_version_2_of_a_notification_has_an_envelope",
    ),
    "send_notification blocks until the bus owns it": (
        "test_a_notification_blocks_until_the_bus_owns_it",
    ),
    "remote errors": (
        "test_an_exception_of_an_allowed_module_is_raised_as_itself",
        "test_an_exception_of_another_module_is_raised_as_a_remote_error",
        "test_a_missing_method_is_a_remote_error_of_the_caller",
        "test_a_reply_that_json_cannot_carry_fails_the_call_and_not_the_server",
        "test_an_exception_that_json_cannot_carry_fails_the_call_in_time_too",
        "test_a_request_that_json_cannot_carry_fails_at_once",
    ),
}

RECEIVING: Table = {
    "a listener whose endpoints take no priority hears nothing": (
        "test_a_listener_whose_endpoints_take_no_priority_starts_and_hears_nothing",
    ),
    "the documented way of a message is its way": (
        "test_a_call_and_its_reply",
        "test_a_notification",
        "test_a_subscription",
    ),
    "RPC: three subscriptions": (
        "test_an_rpc_server_reads_its_name_its_topic_and_the_fanout_on_a_broker",
        "test_an_rpc_server_reads_its_name_its_topic_and_the_fanout_on_a_router",
    ),
    "notifications: topic.priority per target and priority": (
        "test_a_notification_listener_reads_one_address_per_priority",
        "test_a_notification_goes_to_the_address_of_its_priority",
        "test_priorities_reach_their_own_endpoints",
        "test_two_targets_of_one_listener_are_both_read",
        "test_a_notifier_reaches_a_listener",
    ),
    "target.exchange is honoured": (
        "test_a_notification_listener_reads_the_exchange_of_its_target",
        "test_rpc_exchanges_are_kept_apart",
    ),
    "each pool gets every message once": (
        "test_each_pool_gets_every_notification_once",
        "test_the_listeners_of_a_pool_share_its_notifications",
    ),
    "batches": (
        "test_a_full_batch_is_delivered_at_once",
        "test_an_incomplete_batch_is_delivered_when_its_time_is_over",
        "test_a_batch_larger_than_the_credit_still_fills",
    ),
    "acknowledged before dispatch": ("test_the_request_is_acknowledged_before_it_is_dispatched",),
    "replenish when settled, not when it arrives": (
        "test_credit_is_given_again_when_messages_are_settled_and_not_when_they_arrive",
        "test_credit_comes_back_once_less_than_half_is_left_and_to_the_full_level",
    ),
    "poll, acknowledge, requeue, reply, heartbeat never raise": (
        "test_nothing_of_an_incoming_message_ever_raises",
        "test_acknowledge_accepts_and_requeue_releases",
        "test_a_message_with_any_id_can_be_settled",
        "test_poll_without_messages_returns_an_empty_list_after_its_timeout",
    ),
    "after stop() poll() is drained until it returns []": (
        "test_stop_wakes_a_poll_without_timeout",
        "test_after_stop_poll_returns_what_has_come_and_then_an_empty_list",
        "test_what_nobody_has_polled_goes_back_to_the_bus_at_cleanup",
        "test_a_stopped_server_takes_no_more_and_another_does",
    ),
    "replies are sent between stop() and cleanup()": (
        "test_replies_are_sent_between_stop_and_cleanup",
    ),
    "a reply answers its request": (
        "test_a_reply_has_the_message_id_of_its_request_as_correlation_id",
        "test_threads_get_their_own_replies",
        "test_a_reply_that_nobody_waits_for_any_more_is_settled_and_forgotten",
        "test_a_reply_that_can_not_be_read_fails_its_call",
    ),
    "heartbeats never block or raise": (
        "test_a_heartbeat_is_a_settled_message_without_body_and_never_waits",
    ),
    "undecodable message: log, reject, go on": (
        "test_an_undecodable_message_is_rejected_and_the_listener_goes_on",
    ),
    "a poison message is not redelivered for ever": (
        "test_a_poison_message_is_not_redelivered_and_the_listener_lives",
        "test_an_endpoint_that_raises_does_not_get_its_notification_again",
    ),
    "redelivered duplicates are dropped, not rejected": (
        "test_a_redelivered_duplicate_is_dropped_and_not_rejected",
        "test_a_message_in_work_when_the_connection_went_is_settled_when_its_work_is_done",
        "test_a_message_whose_work_was_done_when_it_came_again_is_dropped",
        "test_a_first_delivery_that_is_marked_as_redelivered_is_no_duplicate",
        "test_equal_ids_of_different_senders_are_no_duplicates",
        "test_a_requeued_message_is_no_duplicate_after_a_reconnect",
        "test_the_duplicate_filter_can_be_turned_off",
    ),
    "an expired message is not executed, where clocks can be trusted": (
        "test_an_expiry_time_is_honoured_on_service_bus_only",
    ),
    "fork after start": (
        "test_a_process_forked_before_the_first_use_has_a_connection_of_its_own",
        "test_a_process_forked_after_use_has_a_connection_and_a_reply_address_of_its_own",
        "test_a_child_does_not_disturb_the_server_of_its_parent",
        "test_a_child_leaves_no_threads_and_descriptors_over",
    ),
    "eventlet monkey patching": (
        "test_calls_casts_and_notifications_work_in_a_process_patched_by_eventlet",
        "test_under_eventlet_a_blocked_call_does_not_block_the_hub",
        "test_under_eventlet_a_name_lookup_does_not_block_the_hub",
        "test_under_eventlet_no_thread_is_left_over",
    ),
}

FEATURES: Table = {
    "RPC call / cast / fanout": (
        "test_a_call_returns_what_the_server_returned",
        "test_a_cast_reaches_one_server_of_the_topic",
        "test_a_message_to_a_server_reaches_that_server",
        "test_a_fanout_reaches_every_server_once",
        "test_a_call_carries_what_its_server_needs_to_answer",
        "test_a_cast_wants_no_reply",
        "test_requests_are_bodies_of_text",
        "test_a_body_may_be_text_or_data",
    ),
    "call monitoring (heartbeat)": (
        "test_heartbeats_keep_a_long_call_waiting",
        "test_a_server_without_signs_of_life_is_given_up_after_the_monitor_timeout",
        "test_heartbeats_do_not_prolong_the_timeout_of_the_call",
    ),
    "notifications, requeue": (
        "test_a_requeued_notification_comes_again",
        "test_a_requeued_notification_goes_back_to_its_sender_on_a_router",
    ),
    "notification pools": (
        "test_each_pool_gets_every_notification_once",
        "test_a_pool_on_a_bus_that_stores_nothing_is_not_implemented",
    ),
    "at_least_once -> MessageUndeliverable": (
        "test_at_least_once_and_nobody_there_is_message_undeliverable",
    ),
    "bounded reply retry, cache of dead reply addresses": (
        "test_a_dead_reply_address_costs_one_more_attempt_and_is_remembered",
        "test_a_reply_without_credit_ends_at_its_own_timeout",
        "test_no_more_replies_than_the_backlog_wait_unsent",
    ),
    "duplicate filter": ("test_a_redelivered_duplicate_is_dropped_and_not_rejected",),
    "idle detection on by default": (
        "test_the_idle_time_out_is_on_by_default_in_both_directions",
        "test_a_connection_on_which_nothing_comes_any_more_is_replaced",
    ),
    "reconnect back-off with jitter": (
        "test_the_pause_before_a_reconnect_is_random_within_a_second",
        "test_the_pause_between_vain_rounds_grows_with_jitter_to_its_maximum",
    ),
    "who connects, for the lists of a bus": ("test_the_bus_hears_who_connects_and_what_for",),
    "host choice strategy": (
        "test_ordered_means_the_first_host_first",
        "test_the_default_of_host_selection_is_shuffle",
    ),
    "host name verification, per connected host": (
        "test_a_certificate_for_another_host_is_refused_with_host_and_cause",
        "test_a_certificate_of_an_unknown_authority_is_refused_with_host_and_cause",
        "test_tls_with_an_authority_of_ones_own",
        "test_in_vhost_mode_the_name_of_the_virtual_host_is_expected",
    ),
    "TLS minimum version option": ("test_the_minimum_version_of_tls_is_kept",),
    "SASL": (
        "test_user_and_password_of_the_url_are_used",
        "test_only_mechanisms_of_the_option_are_used",
        "test_without_a_common_mechanism_the_error_says_so",
        "test_a_client_certificate_is_an_identity",
    ),
    "compression": (
        "test_large_bodies_are_compressed_if_the_option_says_so",
        "test_requests_replies_and_notifications_travel_compressed",
        "test_a_receiver_without_the_option_reads_what_is_compressed",
        "test_messages_larger_than_a_frame_are_whole",
    ),
    "durable / TTL of nodes where the bus can": (
        "test_durable_where_the_bus_can_and_nobody_waits",
        "test_the_queues_of_rpc_expire_and_those_of_notifications_stay",
    ),
    "exchange honoured in notifications": (
        "test_the_exchange_of_a_target_keeps_notifications_apart",
    ),
    "link credit per subscription, stall counts": (
        "test_the_default_credits_are_200_for_replies_and_100_for_each_rpc_subscription",
        "test_the_default_credit_is_100_for_each_notification_subscription",
        "test_stalls_for_want_of_credit_are_counted_and_logged_at_debug",
        "test_the_reply_link_has_credit_of_its_own_and_never_runs_dry",
    ),
    "sender blocked by missing credit until its deadline": (
        "test_without_credit_a_cast_is_no_success",
        "test_senders_wait_for_a_full_queue_and_go_on_when_there_is_room",
        "test_a_blocked_address_does_not_hold_up_the_others",
        "test_an_address_without_credit_is_named_in_a_repeated_warning",
        "test_the_mailbox_is_bounded_and_senders_wait_for_room_until_their_deadline",
    ),
    "pre-settled kinds, none by default": (
        "test_nothing_is_sent_settled_by_default",
        "test_each_kind_of_message_can_be_sent_settled_by_itself",
    ),
    "resend_released": (
        "test_resend_released_sends_again_what_was_certainly_not_processed",
        "test_resend_released_sends_nothing_else_again",
    ),
}

#: defects that other drivers had and have no more
FIXED: Table = {
    "no vhost isolation": (
        "test_virtual_hosts_are_kept_apart_by_address",
        "test_the_virtual_host_is_part_of_every_address",
        "test_without_pseudo_vhost_the_virtual_host_is_that_of_the_open_frame",
    ),
    "pre-settled call still waits for an ack": (
        "test_a_pre_settled_call_does_not_wait_for_an_acknowledgement",
    ),
    "realm added although the user has one": (
        "test_the_default_realm_is_added_to_users_without_one_only",
    ),
    "TLS with the system CA impossible": ("test_tls_with_the_authorities_of_the_system",),
    "options from the URL ignored": ("test_an_option_of_the_url_overrides_the_configuration",),
    "only the first address family tried": ("test_every_address_of_a_host_is_tried",),
    "TLS peer name of the previous host after failover": (
        "test_after_failover_the_name_of_the_new_host_is_expected",
        "test_after_failover_the_name_of_the_old_host_does_not_do",
    ),
    "RELEASED/MODIFIED lost silently": (
        "test_a_negative_outcome_is_a_delivery_failure",
        "test_a_rejection_names_its_condition_and_description",
    ),
    "auth failure hangs callers": ("test_a_wrong_password_does_not_hang_callers_and_says_so",),
    "one sender link per reply address never detached": (
        "test_idle_sending_links_are_detached",
        "test_a_sending_link_in_use_is_not_detached_and_a_purged_one_comes_back",
        "test_one_link_serves_the_replies_to_all_callers_where_the_bus_relays",
    ),
    "timers leaked": ("test_no_timer_is_left_over_after_many_calls",),
    "snd-settle-mode that makes acks impossible": (
        "test_sending_links_are_such_that_outcomes_can_be_told",
    ),
    "cancel of a response after the reply link went": (
        "test_a_call_that_is_given_up_after_its_reply_link_went_harms_nothing",
    ),
    "dispositions sent off the I/O thread": (
        "test_messages_are_sent_and_settled_by_the_io_thread_or_who_stands_in_for_it",
    ),
    "link failure not recovered": (
        "test_a_server_link_that_the_bus_detaches_is_attached_again",
        "test_a_sending_link_that_the_bus_detaches_is_attached_again",
        "test_a_session_that_the_bus_ends_is_begun_again",
    ),
    "all clients hit the first host": ("test_several_transports_do_not_all_take_the_first_host",),
    "two listeners on one topic, one lost at failover": (
        "test_a_lost_host_is_replaced_by_the_next_with_all_subscriptions",
    ),
    "cyclic references leak": (
        "test_no_reference_to_a_transport_is_left_over_after_cleanup",
        "test_no_reference_is_left_over_after_many_connections",
        "test_no_thread_and_no_descriptor_is_left_over_after_cleanup",
        "test_no_call_and_no_reply_is_remembered_after_its_end",
    ),
    "callbacks destroying their own object": (
        "test_detach_end_and_close_in_one_go_leave_nothing_half_done",
    ),
    "send returned before the bus took the message": (
        "test_a_cast_returns_when_the_bus_has_taken_the_message_and_not_before",
    ),
    "envelope not deserialised": (
        "test_a_request_in_an_envelope_reaches_the_endpoint_without_it",
        "test_the_body_of_a_server_from_before_is_read",
    ),
    "module not importable without proton": (
        "test_loading_without_proton_names_what_is_missing_and_how_to_get_it",
        "test_every_module_but_those_of_the_protocol_can_be_imported_without_proton",
    ),
    "heartbeat failure kills the watchdog": ("test_nothing_of_an_incoming_message_ever_raises",),
    "send during the reconnect delay uses half-reset state": (
        "test_a_send_during_the_pause_before_a_reconnect_goes_out_afterwards",
    ),
}

#: defects that other drivers still have
NEVER_FIXED: Table = {
    "DNS failure killed the I/O thread": (
        "test_a_name_that_does_not_resolve_does_not_kill_the_io_thread",
        "test_a_lookup_that_never_ends_does_not_outlive_the_callers_deadline",
    ),
    "loop death must fail every waiter": (
        "test_when_the_io_thread_dies_every_waiter_fails_at_once",
        "test_after_the_death_of_its_io_thread_a_transport_gets_another",
        "test_a_subscription_survives_the_death_of_its_io_thread",
    ),
    "without credit a pre-settled cast returned success": (
        "test_without_credit_a_cast_is_no_success",
    ),
    "an unsettled cast with retry=-1 failed on connection loss although it never left": (
        "test_a_cast_without_credit_survives_the_connection_and_is_sent_by_the_next",
    ),
    "absolute-expiry-time was filled from the monotonic clock": (
        "test_no_message_has_an_expiry_time_of_another_clock",
    ),
    "idle timeout off by default": ("test_the_idle_time_out_is_on_by_default_in_both_directions",),
    "undecodable messages never settled": (
        "test_an_undecodable_message_is_rejected_and_the_listener_goes_on",
    ),
    "deadlines rounded up to whole seconds": ("test_a_deadline_is_not_rounded_to_whole_seconds",),
    "acknowledge() never waited": (
        "test_an_acknowledgement_right_before_cleanup_still_gets_to_the_bus",
    ),
    "reply failures logged at DEBUG only": (
        "test_a_failed_reply_is_logged_as_an_error_and_does_not_raise",
    ),
}

OPERATORS: Table = {
    "a lost reply address is noticed and rebuilt while the connection is healthy": (
        "test_a_reply_address_that_has_gone_is_replaced_while_the_connection_lives",
        "test_calls_waiting_for_a_reply_fail_when_the_reply_link_goes",
    ),
    "reply addresses unique per process and fork": (
        "test_reply_addresses_are_unique_among_transports",
        "test_a_process_forked_after_use_has_a_connection_and_a_reply_address_of_its_own",
    ),
    "rotate hosts on every kind of failure": (
        "test_the_next_host_is_tried_after_every_kind_of_failure",
        "test_the_next_host_is_tried_after_a_failure_of_tls",
        "test_a_lost_host_is_replaced_by_the_next_with_all_subscriptions",
    ),
    "jitter everything that thousands of agents do at once": (
        "test_the_pause_before_a_reconnect_is_random_within_a_second",
        "test_the_pause_between_vain_rounds_grows_with_jitter_to_its_maximum",
    ),
    "never delete shared nodes on an error": ("test_shared_nodes_are_declared_and_never_deleted",),
    "leave no orphan queues": (
        "test_the_queues_of_rpc_expire_and_those_of_notifications_stay",
        "test_replies_come_by_a_queue_that_goes_with_its_link",
        "test_the_bus_is_closed_cleanly",
    ),
    "never poll in a reply wait": ("test_a_call_never_sleeps_or_polls_while_it_waits",),
    "name host, address and message id in every timeout and error log": (
        "test_a_timeout_names_host_address_and_message_id",
        "test_a_failed_reply_is_logged_as_an_error_and_does_not_raise",
    ),
    "a transport ends in time and can be used again": (
        "test_cleanup_ends_in_time_whatever_the_bus_does",
        "test_a_transport_can_be_used_again_after_cleanup",
    ),
}

#: what oslo.messaging has no words for: the driver's own hook
FLOW: Table = {
    "a listener can be paused and resumed while others go on": (
        "test_a_paused_listener_gets_nothing_until_it_is_resumed",
        "test_a_paused_rpc_server_leaves_its_work_to_the_others",
    ),
    "its credit can be raised and lowered while it runs: priority between listeners": (
        "test_credit_is_set_while_a_listener_runs",
        "test_of_two_that_compete_the_one_with_more_credit_gets_more",
        "test_the_credit_of_a_listener_for_batches_is_never_below_two_of_them",
    ),
    "the backlog that the bus reports is told": ("test_a_bus_that_does_not_tell_has_no_backlog",),
    "a small session window lets large messages through": (
        "test_messages_that_are_larger_than_the_sessions_window_come_whole",
    ),
    "a full target slows only its own senders": (
        "test_a_full_target_holds_up_no_other",
        "test_senders_to_a_full_target_fail_at_their_deadline_unsent",
    ),
    "the documentation's example does what it says": (
        "test_the_worker_of_the_documentation_pauses_and_goes_on",
    ),
    "a bus that sends its clients elsewhere is followed": (
        "test_a_transport_goes_where_a_bus_sends_it",
        "test_by_default_it_goes_to_hosts_of_its_url_only",
        "test_a_host_outside_of_the_url_gets_no_password_in_clear",
        "test_a_bus_that_is_not_there_is_not_waited_for",
        "test_a_link_that_is_elsewhere_takes_the_transport_along",
    ),
    "wrong use is an error that says so": (
        "test_no_credit_at_all_is_an_error_that_tells_of_pause",
        "test_a_server_that_was_not_started_is_an_error",
        "test_a_listener_that_has_stopped_can_be_asked_but_not_told",
    ),
    "a listener that stops works off what is on its way and hands over in order": (
        "test_listeners_that_follow_each_other_get_all_in_order",
    ),
}

#: of the driver's own telemetry
TELEMETRY: Table = {
    "nobody who did not ask for it pays for it": ("test_without_the_options_nothing_observes",),
    "each message, stall and change of state is a record": (
        "test_records_of_an_application",
        "test_a_message_that_waits_for_a_connection_and_times_out",
    ),
    "files are whole when others may read them, and only the owner may": (
        "test_two_transports_share_files_and_the_last_one_finishes_them",
        "test_a_program_that_ends_without_cleanup_leaves_whole_files",
        "test_records_are_not_for_everybody",
    ),
    "Prometheus reads counters and histograms": ("test_prometheus_reads_it_while_it_runs",),
    "records go over the bus, and their sending makes none": (
        "test_records_over_the_bus_and_none_of_their_sending",
    ),
    "what goes wrong with it is logged and breaks nothing": (
        "test_a_port_in_use_is_logged_and_breaks_nothing",
        "test_a_directory_that_cannot_be_made_is_logged_once_and_breaks_nothing",
        "test_a_bus_that_takes_no_records_breaks_nothing",
    ),
    "it works in forked processes and under eventlet": (
        "test_a_child_has_files_and_records_of_its_own",
        "test_in_a_process_patched_by_eventlet",
    ),
    "wrong values are named when the transport is made": (
        "test_wrong_values_are_named_at_the_start",
    ),
    "the child of a fork has an endpoint of its own, with green threads too": (
        "test_the_child_of_a_green_process_has_an_endpoint_of_its_own",
    ),
}

#: strangers, defects and a lack of everything cost as little as they may
HARM: Table = {
    "a defect costs one connection": ("test_a_bug_costs_a_connection_and_no_more",),
    "without descriptors SASL fails for as long as that lasts": (
        "test_sasl_works_once_there_are_descriptors",
    ),
    "a fork at the worst time leaves the child able to call": (
        "test_the_first_call_imports_nothing",
        "test_a_fork_during_the_first_call_leaves_the_child_able_to_call",
    ),
    "the size of messages is bounded, and an error names it": (
        "test_a_message_that_is_too_large_fails_at_once_and_names_size_and_limit",
        "test_what_the_bus_does_not_take_fails_at_once",
        "test_a_caller_learns_that_its_reply_is_too_large",
        "test_a_compressed_body_may_not_grow_beyond_the_limit",
    ),
    "a message that nobody can read costs its sender only": (
        "test_of_many_undecodable_messages_a_few_are_logged_and_all_give_their_credit_back",
        "test_bad_requests_among_calls_cost_no_call",
        "test_a_bad_notification_does_not_cost_the_rest_of_its_batch",
        "test_a_bad_notification_is_rejected_and_the_listener_goes_on",
        "test_a_context_that_is_no_object_fails_at_its_sender_and_nothing_is_sent",
    ),
    "a monitored call ends with its reply": (
        "test_after_the_reply_there_is_no_heartbeat_and_the_watchdog_of_the_call_ends",
    ),
}

TABLES: dict[str, Table] = {
    "loading": LOADING,
    "sending": SENDING,
    "receiving": RECEIVING,
    "features": FEATURES,
    "fixed": FIXED,
    "never fixed": NEVER_FIXED,
    "operators": OPERATORS,
    "flow control": FLOW,
    "telemetry": TELEMETRY,
    "harm": HARM,
}
