#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The functions of devstack that the plugin calls, as small as they can be. They
# really do it, in the folder of one test.

function define_plugin {
    [[ $1 == amqp1-driver ]]
}

function echo_summary {
    echo "summary: $*"
}

function die {
    echo "[ERROR] line $1: ${*:2}" >&2
    exit 1
}

function is_service_enabled {
    local service
    for service in "$@"; do
        if [[ ",$ENABLED_SERVICES," == *",$service,"* ]]; then
            return 0
        fi
    done
    return 1
}

function enable_service {
    local service
    for service in "$@"; do
        if [[ ",$DISABLED_SERVICES," != *",$service,"* ]]; then
            ENABLED_SERVICES+=",$service"
        fi
    done
}

function disable_service {
    local service
    for service in "$@"; do
        DISABLED_SERVICES+=",$service"
        ENABLED_SERVICES=",$ENABLED_SERVICES,"
        ENABLED_SERVICES=${ENABLED_SERVICES//,$service,/,}
    done
}

# iniset FILE SECTION OPTION VALUE
function iniset {
    "$DEVSTACK_VENV/bin/python3" - "$@" <<'PY'
import configparser, sys
path, section, option, value = sys.argv[1:]
ini = configparser.RawConfigParser(default_section="no section of defaults")
ini.read(path)
if not ini.has_section(section):
    ini.add_section(section)
ini.set(section, option, value)
with open(path, "w") as file:
    ini.write(file)
PY
}

function is_ubuntu {
    command -v apt-get >/dev/null
}

# No package of the system is touched by a test.
function install_package {
    die $LINENO "packages are missing: $*"
}

function pip_install {
    "$DEVSTACK_VENV/bin/python3" -m pip install -q --no-deps --no-build-isolation "$@"
}

function pip_uninstall {
    "${PIP_VIRTUAL_ENV:?}/bin/python3" -m pip uninstall -q -y "$1"
}

function setup_develop {
    pip_install -e "$1"
}

# Of lib/rpc_backend, for devstack's own RabbitMQ:

function get_transport_url {
    echo "rabbit://stackrabbit:$RABBIT_PASSWORD@$SERVICE_HOST:5672/$1"
}

function get_notification_url {
    echo "rabbit://stackrabbit:$RABBIT_PASSWORD@$SERVICE_HOST:5672/$1"
}

function iniset_rpc_backend {
    iniset "$2" "${3:-DEFAULT}" transport_url "$(get_transport_url "$4")"
}

function rpc_backend_add_vhost {
    echo 'RPC backend does not support vhosts'
    return 1
}
