#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail

usage() {
    cat <<'USAGE'
MariaDB for tests, from Debian packages unpacked in a private folder: nothing of the system is
changed, no user, no service, no file in /etc. Root or not.

  mariadb.sh install            into ${AMQP1_CACHE:-~/.cache/amqp1-driver}/mariadb
  mariadb.sh start DIR          a server with its data in DIR, on the socket DIR/socket only;
                                everything in it is lost with the machine's power: it never syncs
  mariadb.sh sql DIR [ARG...]   the client on it
  mariadb.sh stop DIR           clean shutdown
USAGE
}

die() { printf 'mariadb.sh: %s\n' "$*" >&2; exit 1; }

HOME_DIR=${AMQP1_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/amqp1-driver}/mariadb
START_SECONDS=30

# shellcheck source=tools/debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

cmd_install() {
    local packages=() since=$SECONDS
    mkdir -p "$HOME_DIR"
    exec 9> "$HOME_DIR/.lock"; flock 9
    [ ! -f "$HOME_DIR/complete" ] || return 0
    debian_sources bookworm "$HOME_DIR"
    mapfile -t packages < <(debian_closure '^(lib|zlib1g|mariadb-common$)' \
        mariadb-server-core mariadb-client-core patchelf libgcc-s1)
    debian_unpack "$HOME_DIR" "${packages[@]}"
    debian_patch "$HOME_DIR"/root/usr/sbin/mariadbd "$HOME_DIR"/root/usr/bin/mariadb
    "$HOME_DIR/root/usr/sbin/mariadbd" --version > "$HOME_DIR/complete"
    printf '%s (%s s)\n' "$(cat "$HOME_DIR/complete")" "$((SECONDS - since))"
}

server() {
    local dir=$1; shift
    # --user: the server refuses to be root without it
    "$HOME_DIR/root/usr/sbin/mariadbd" --no-defaults --user="$(id -un)" \
        --basedir="$HOME_DIR/root/usr" --lc-messages-dir="$HOME_DIR/root/usr/share/mysql" \
        --datadir="$dir/data" --tmpdir="$dir/tmp" \
        --innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --skip-innodb-doublewrite \
        --innodb-log-file-size=64M --innodb-buffer-pool-size=256M "$@"
}

create() {
    local dir=$1 share=$HOME_DIR/root/usr/share/mysql
    mkdir -p "$dir"/{data,tmp}
    {
        printf 'CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n'
        cat "$share"/mysql_system_tables.sql "$share"/mysql_performance_tables.sql \
            "$share"/mysql_system_tables_data.sql "$share"/fill_help_tables.sql
    } | server "$dir" --bootstrap --skip-grant-tables > "$dir/create.log" 2>&1 ||
        { tail -n 20 "$dir/create.log" >&2; die "no database could be made in $dir"; }
}

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

cmd_start() {
    local dir=${1:?folder} deadline=$((SECONDS + START_SECONDS))
    mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
    [ -f "$HOME_DIR/complete" ] || die "not installed"
    ! alive "$dir/pid" || return 0
    [ -d "$dir/data/mysql" ] || create "$dir"
    server "$dir" --skip-networking --skip-grant-tables --socket="$dir/socket" --pid-file="$dir/pid" \
        --max-connections=1000 </dev/null >"$dir/log" 2>&1 9>&- &
    until [ -S "$dir/socket" ] && cmd_sql "$dir" -e 'SELECT 1' >/dev/null 2>&1; do
        kill -0 $! 2>/dev/null || { tail -n 20 "$dir/log" >&2; die "the server died at start"; }
        [ "$SECONDS" -lt "$deadline" ] || die "the server is not up in $START_SECONDS s: $dir/log"
        sleep 0.1
    done
}

cmd_sql() {
    local dir=${1:?folder}; shift
    "$HOME_DIR/root/usr/bin/mariadb" --no-defaults --user=root --socket="$dir/socket" "$@"
}

cmd_stop() {
    local dir=${1:?folder} pid deadline=$((SECONDS + 30))
    alive "$dir/pid" || return 0
    pid=$(cat "$dir/pid")
    kill -TERM "$pid"
    while kill -0 "$pid" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || { kill -KILL "$pid"; break; }
        sleep 0.1
    done
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
    install | start | sql | stop) "cmd_$command" "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
