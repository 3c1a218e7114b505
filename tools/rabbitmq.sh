#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail

usage() {
    cat <<'USAGE'
RabbitMQ 4 for tests, from Debian packages unpacked in a private folder: nothing
of the system is changed, no user, no service, no file in /etc. Root or not.

  rabbitmq.sh install trixie|sid [DIR]   trixie: RabbitMQ 4.0, sid: 4.3 or what follows it
  rabbitmq.sh start DIR PORT             a node on 127.0.0.1:PORT, guest/guest, its own epmd
  rabbitmq.sh ctl DIR PORT [TOOL] ARG... rabbitmqctl (or rabbitmq-plugins, -queues, ...) on it
  rabbitmq.sh kill DIR PORT              SIGKILL, as a crash; "start" brings it back
  rabbitmq.sh signal DIR PORT NAME       any other signal (STOP, CONT) to its Erlang VM
  rabbitmq.sh stop DIR PORT [--wipe]     clean shutdown; --wipe forgets queues and log as well
  rabbitmq.sh version DIR                prints the version

DIR is by default ${AMQP1_CACHE:-~/.cache/amqp1-driver}/rabbitmq/SUITE; for the
other commands the word trixie or sid stands for that folder.
RMQ_CONF: a file with further lines for rabbitmq.conf. RMQ_PLUGINS: plugins.
RMQ_START_TIMEOUT: seconds (60).
The packages come from the mirror that this machine's own apt uses, or from
AMQP1_DEBIAN_MIRROR; apt checks their signatures.
USAGE
}

die() { printf 'rabbitmq.sh: %s\n' "$*" >&2; exit 1; }

CACHE=${AMQP1_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/amqp1-driver}/rabbitmq

folder() {
    case $1 in
        trixie | sid) printf '%s\n' "$CACHE/$1" ;;
        *) (cd "$1" 2>/dev/null && pwd) || die "no such folder: $1" ;;
    esac
}

# --- install ----------------------------------------------------------------

# shellcheck source=tools/debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

unpack() {
    local dir=$1 root=$1/root erlang files
    shift
    debian_unpack "$dir" "$@"
    mapfile -t files < <(find "$root"/usr/lib/erlang/erts-*/bin "$root"/usr/lib/erlang/bin \
        "$root"/usr/lib/erlang/lib/*/priv -type f -perm /111 2>/dev/null)
    debian_patch "${files[@]}"
    erlang=$root/usr/lib/erlang
    # Erlang's start scripts have the root folder written into them.
    sed -i "s#ROOTDIR=/usr/lib/erlang\$#ROOTDIR=$erlang#" \
        "$erlang"/bin/erl "$erlang"/erts-*/bin/erl "$erlang"/bin/start 2>/dev/null || true
    local server; server=$(echo "$root"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
    [ -d "$server" ] || die "no RabbitMQ among the unpacked packages"
    cat > "$dir/env.sh.new" <<ENV
RMQ_SERVER=$server
RMQ_VERSION=${server##*rabbitmq_server-}
PATH=$erlang/bin:\$PATH
export RMQ_SERVER RMQ_VERSION PATH
ENV
    "$erlang/bin/erl" -noinput -eval 'halt(0).' </dev/null || die "the unpacked Erlang does not start"
    mv "$dir/env.sh.new" "$dir/env.sh"
}

cmd_install() {
    local suite=${1:?suite} dir=${2:-$CACHE/$1} packages=() since=$SECONDS
    case $suite in trixie | sid) ;; *) die "unknown suite $suite (trixie or sid)" ;; esac
    command -v flock >/dev/null || die "flock is not there (package util-linux)"
    mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
    exec 9> "$dir/.lock"; flock 9
    if [ -f "$dir/env.sh" ]; then cmd_version "$dir"; return; fi
    debian_sources "$suite" "$dir"
    mapfile -t packages < <(debian_closure '^(erlang-|lib|zlib1g)' \
        rabbitmq-server erlang-base erlang-eunit patchelf libgcc-s1)
    unpack "$dir" "${packages[@]}"
    printf 'RabbitMQ %s in %s (%s s, %s)\n' "$(cmd_version "$dir")" "$dir" "$((SECONDS - since))" \
        "$(du -sh "$dir" | cut -f1)"
}

cmd_version() {
    local dir; dir=$(folder "$1")
    [ -f "$dir/env.sh" ] || die "not installed: $dir"
    sed -n 's/^RMQ_VERSION=//p' "$dir/env.sh"
}

# --- nodes ------------------------------------------------------------------

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

# Two TCP ports that are free now, for epmd and Erlang's distribution: below those
# that the kernel gives to outgoing connections, which would take them meanwhile.
free_ports() {
    python3 - <<'PY'
import random, socket
found = []
while len(found) < 2:
    port = random.randrange(20000, 32768)
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            continue
    found.append(port)
print(*found)
PY
}

write_config() {
    local dir=$1 port=$2 node=$3 epmd dist
    mkdir -p "$node"/{log,mnesia,home,schema,generated}
    printf '[%s].\n' "$(tr -s ' ' ',' <<< "${RMQ_PLUGINS:-}")" > "$node/enabled_plugins"
    {
        printf 'listeners.tcp.1 = 127.0.0.1:%s\nloopback_users = none\n' "$port"
        printf 'log.file.level = info\nlog.console = false\ndisk_free_limit.absolute = 50MB\n'
        [ -z "${RMQ_CONF:-}" ] || cat "$RMQ_CONF"
    } > "$node/rabbitmq.conf"
    : > "$node/rabbitmq-env.conf"
    read -r epmd dist < <(free_ports)
    cat > "$node/node.sh" <<ENV
. "$dir/env.sh"
export HOME="$node/home" LANG=C.UTF-8 LC_ALL=C.UTF-8
export ERL_EPMD_PORT=$epmd ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME=amqp1-$port@localhost RABBITMQ_USE_LONGNAME=false
export RABBITMQ_DIST_PORT=$dist
export RABBITMQ_BASE="$node" RABBITMQ_MNESIA_BASE="$node/mnesia"
export RABBITMQ_LOG_BASE="$node/log" RABBITMQ_LOGS="$node/log/rabbit.log"
export RABBITMQ_CONFIG_FILE="$node/rabbitmq.conf" RABBITMQ_CONFIG_FILES="$node/conf.d"
export RABBITMQ_ADVANCED_CONFIG_FILE="$node/advanced.config"
export RABBITMQ_CONF_ENV_FILE="$node/rabbitmq-env.conf"
export RABBITMQ_ENABLED_PLUGINS_FILE="$node/enabled_plugins"
export RABBITMQ_GENERATED_CONFIG_DIR="$node/generated" RABBITMQ_SCHEMA_DIR="$node/schema"
export RABBITMQ_FEATURE_FLAGS_FILE="$node/feature_flags" RABBITMQ_PID_FILE="$node/beam.pid"
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
export RABBITMQ_CTL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
ENV
}

node_folder() { printf '%s/run/%s\n' "$(folder "$1")" "$2"; }

cmd_start() {
    local dir port=${2:?port} node deadline
    dir=$(folder "${1:?folder}"); node=$(node_folder "$dir" "$port")
    [ -f "$dir/env.sh" ] || die "not installed: $dir"
    if alive "$node/pid"; then echo "already running on 127.0.0.1:$port"; return; fi
    write_config "$dir" "$port" "$node"
    # shellcheck source=/dev/null
    . "$node/node.sh"
    if [ -f "$node/log/rabbit.log" ]; then mv -f "$node/log/rabbit.log" "$node/log/rabbit.log.1"; fi
    # epmd is a child of ours, so that "stop" can end it by its pid
    setsid epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 </dev/null >"$node/log/epmd.log" 2>&1 9>&- &
    echo $! > "$node/epmd.pid"
    # else the node starts one of its own, a daemon that nobody ends
    until epmd -port "$ERL_EPMD_PORT" -names >/dev/null 2>&1; do
        alive "$node/epmd.pid" || die "epmd does not start: $(cat "$node/log/epmd.log")"
        sleep 0.05
    done
    setsid "$RMQ_SERVER/sbin/rabbitmq-server" </dev/null >"$node/log/stdout" 2>"$node/log/stderr" 9>&- &
    echo $! > "$node/pid"
    deadline=$((SECONDS + ${RMQ_START_TIMEOUT:-60}))
    until grep -q 'Server startup complete' "$node/log/rabbit.log" 2>/dev/null; do
        if ! alive "$node/pid"; then
            tail -n 30 "$node"/log/stdout "$node"/log/stderr "$node"/log/rabbit.log >&2 2>/dev/null || true
            end_epmd "$node"; die "the node on port $port died at start"
        fi
        [ "$SECONDS" -lt "$deadline" ] || die "the node on port $port is not up in time: $node/log"
        sleep 0.1
    done
    echo "RabbitMQ $RMQ_VERSION ready on 127.0.0.1:$port"
}

end_epmd() {
    if alive "$1/epmd.pid"; then kill "$(cat "$1/epmd.pid")" 2>/dev/null || true; fi
    rm -f "$1/epmd.pid"
}

# wait_gone SECONDS PID: true when the process has ended
wait_gone() {
    local deadline=$((SECONDS + $1))
    while kill -0 "$2" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

cmd_stop() {
    local node pid
    node=$(node_folder "${1:?folder}" "${2:?port}")
    if alive "$node/pid"; then
        pid=$(cat "$node/pid")
        kill -TERM "$pid" # the start script passes it on to the Erlang VM
        wait_gone 30 "$pid" || cmd_kill "$1" "$2"
    fi
    end_epmd "$node"; rm -f "$node/pid"
    if [ "${3:-}" = --wipe ]; then rm -rf "$node"; fi
}

cmd_kill() {
    local node file
    node=$(node_folder "${1:?folder}" "${2:?port}")
    for file in beam.pid pid; do # the VM first, then the script that waits for it
        if alive "$node/$file"; then
            kill -KILL "$(cat "$node/$file")" 2>/dev/null || true
            wait_gone 10 "$(cat "$node/$file")" || true
        fi
        rm -f "$node/$file"
    done
    end_epmd "$node"
}

cmd_signal() {
    local node
    node=$(node_folder "${1:?folder}" "${2:?port}")
    alive "$node/beam.pid" || die "no node runs there: $node"
    kill -"${3:?signal}" "$(cat "$node/beam.pid")"
}

cmd_ctl() {
    local node tool=rabbitmqctl
    node=$(node_folder "${1:?folder}" "${2:?port}"); shift 2
    [ -f "$node/node.sh" ] || die "no node there: $node"
    case ${1:-} in rabbitmq*) tool=$1; shift ;; esac
    # shellcheck source=/dev/null
    . "$node/node.sh"
    exec "$RMQ_SERVER/sbin/$tool" "$@"
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
    install | start | stop | kill | signal | ctl | version) "cmd_$command" "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
