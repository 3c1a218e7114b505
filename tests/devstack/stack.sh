#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What stack.sh, unstack.sh and clean.sh do around a plugin, in their order:
#
#   stack.sh stack|unstack|clean FOLDER
#   stack.sh eval FOLDER COMMAND         with the functions of phase "pre-install"
#
# FOLDER has localrc; $DEST/amqp1-driver is the plugin.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
MODE=$1 COMMAND=${3:-}
cd "$2" || exit 1
# shellcheck source=tests/devstack/functions.sh
source "$HERE/functions.sh"
# as devstack: copies of the standard output that are kept open
exec 3>&1 6>&1
set -o errexit

DEST=$PWD
# shellcheck disable=SC2034
DATA_DIR=$DEST/data DEVSTACK_VENV=$DEST/venv GLOBAL_VENV=True
ENABLED_SERVICES=${ENABLED_SERVICES:-key,n-api,rabbit} DISABLED_SERVICES=
# shellcheck source=/dev/null
source ./localrc
PLUGIN=$DEST/amqp1-driver/devstack

function plugin {
    # shellcheck source=devstack/plugin.sh
    source "$PLUGIN/plugin.sh" "$@"
}

# shellcheck source=devstack/settings
source "$PLUGIN/settings"
set -o xtrace
case $MODE in
    stack)
        plugin stack pre-install
        # what the services do when they are configured
        iniset_rpc_backend keystone etc/keystone.conf oslo_messaging_notifications
        iniset etc/nova.conf oslo_messaging_notifications driver messagingv2
        iniset_rpc_backend nova etc/nova.conf
        rpc_backend_add_vhost nova_cell1
        iniset_rpc_backend nova etc/nova_cell1.conf DEFAULT nova_cell1
        plugin stack install
        plugin stack post-config
        plugin stack extra
        ;;
    eval)
        plugin none
        set +o xtrace
        eval "$COMMAND"
        ;;
    *)
        # processes of their own, without lib/rpc_backend
        unset -f get_transport_url get_notification_url iniset_rpc_backend rpc_backend_add_vhost
        plugin "$MODE"
        ;;
esac
