#!/bin/bash
#
# plugin.sh - the phases of devstack for the AMQP 1.0 driver of oslo.messaging

_XTRACE_AMQP1=$(set +o | grep xtrace)
set +o xtrace

AMQP1_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=devstack/lib/urls
source "$AMQP1_DIR/devstack/lib/urls"
# shellcheck source=devstack/lib/buses
source "$AMQP1_DIR/devstack/lib/buses"
# shellcheck source=devstack/lib/driver
source "$AMQP1_DIR/devstack/lib/driver"

if is_service_enabled amqp1; then
    # Services are configured between "pre-install" and "install", and virtual hosts
    # are asked for then: from here on these functions are ours, and the bus runs.
    # shellcheck source=devstack/lib/rpc_backend
    source "$AMQP1_DIR/devstack/lib/rpc_backend"

    if [[ "$1" == "stack" && "$2" == "pre-install" ]]; then
        amqp1_check_settings
        if is_service_enabled amqp1-bus; then
            echo_summary "Installing the message bus for $(amqp1_describe)"
            amqp1_start_buses
        fi

    elif [[ "$1" == "stack" && "$2" == "install" ]]; then
        echo_summary "Installing the AMQP 1.0 driver of oslo.messaging"
        amqp1_install_driver

    elif [[ "$1" == "stack" && "$2" == "post-config" ]]; then
        if [[ "$AMQP1_CHECK" == "True" ]]; then
            echo_summary "One call and one notification over $(amqp1_describe)"
            amqp1_check_bus
        fi

    elif [[ "$1" == "stack" && "$2" == "extra" ]]; then
        # nothing: the services have started
        :
    fi

    if [[ "$1" == "unstack" ]]; then
        amqp1_stop_buses
    fi

    if [[ "$1" == "clean" ]]; then
        amqp1_remove_driver
        amqp1_clean_buses
    fi
fi

$_XTRACE_AMQP1

# Tell emacs to use shell-script-mode
## Local variables:
## mode: shell-script
## End:
