#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail

usage() {
    cat <<'USAGE'
ActiveMQ Artemis and Apache Qpid Broker-J for tests, from their binary
distributions, unpacked in a private folder: nothing of the system is changed.
BUS is artemis or brokerj.

  javabus.sh install BUS            download, checksum, unpack
  javabus.sh start BUS PORT         on 127.0.0.1:PORT, guest/guest, with tools/javabus/*
  javabus.sh ctl BUS PORT ARG...    artemis: its command line, as admin ("queue stat");
                                    brokerj: GET of its REST API ("queue?depth=0")
  javabus.sh kill BUS PORT          SIGKILL, as a crash; "start" brings it back
  javabus.sh signal BUS PORT NAME   any other signal (STOP, CONT)
  javabus.sh stop BUS PORT [--wipe] clean shutdown; --wipe forgets what is stored as well
  javabus.sh version BUS            prints the version

JAVABUS_FULL: bytes from which on a queue is full (104857600). JAVABUS_ARGS: further
arguments of java, as -Dopenstack.expiry=1000 for what tools/javabus/broker.xml
names. JAVABUS_START_TIMEOUT: seconds (60).
Below ${AMQP1_CACHE:-~/.cache/amqp1-driver}/javabus. Needs java (11 or newer) and
mvn, which knows the repository or the mirror of this machine.
USAGE
}

die() { printf 'javabus.sh: %s\n' "$*" >&2; exit 1; }

CONFIG=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/javabus
FULL=${JAVABUS_FULL:-104857600}
CACHE=${AMQP1_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/amqp1-driver}/javabus
GET=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get

# Sets NAME, VERSION, ARTIFACT, SHA512 and HOME_IN_TAR of a bus.
bus() {
    case ${1:-} in
        artemis)
            NAME="ActiveMQ Artemis" VERSION=2.40.0 HOME_IN_TAR=apache-artemis-2.40.0
            ARTIFACT=org.apache.activemq:apache-artemis
            SHA512=270a00dc3028fb3b93c6aa09aa3e40fbe76015029e5308e0aac241589299a72d
            SHA512+=ac9bb50a10e7e86ad66185e2d8bc7224626810df12f1ee05694322054ad32700
            READY='AMQ221007: Server is now active' ;;
        brokerj)
            NAME="Qpid Broker-J" VERSION=9.2.1 HOME_IN_TAR=qpid-broker/9.2.1
            ARTIFACT=org.apache.qpid:apache-qpid-broker-j
            SHA512=48a1633e2195b77c8d458d92ef5cc5d5e0a45ea93b5964185007570ea51cb2a5
            SHA512+=8df764189a505f64d810a14cd254acfbb82b8ed7e2597e9f50bb708474802e7f
            READY='BRK-1004 : Qpid Broker Ready' ;;
        *) die "unknown bus ${1:-} (artemis or brokerj)" ;;
    esac
    DIR=$CACHE/$1
    HOME_OF=$DIR/$HOME_IN_TAR
}

# --- install ----------------------------------------------------------------

cmd_install() {
    local tool work file since=$SECONDS
    bus "$@"
    for tool in java mvn flock sha512sum tar; do
        command -v "$tool" >/dev/null || die "$tool is not there"
    done
    mkdir -p "$DIR"
    exec 9> "$DIR/.lock"; flock 9
    if [ -f "$DIR/installed-$VERSION" ]; then cmd_version "$1"; return; fi
    work=$DIR/download; rm -rf "$work" "$HOME_OF"; mkdir -p "$work"
    # a repository of its own: that of the user stays as it is
    mvn -B -q -Dmaven.repo.local="$work" "$GET" -Dtransitive=false \
        -Dartifact="$ARTIFACT:$VERSION:tar.gz:bin" > "$DIR/install.log" 2>&1 9>&- ||
        { tail -n 20 "$DIR/install.log" >&2; die "download failed"; }
    file=$(find "$work" -name "${ARTIFACT#*:}-$VERSION-bin.tar.gz")
    [ -n "$file" ] || die "no distribution was downloaded"
    printf '%s  %s\n' "$SHA512" "$file" | sha512sum --check --status || die "wrong checksum: $file"
    tar -xzf "$file" -C "$DIR"
    rm -rf "$work"
    : > "$DIR/installed-$VERSION"
    printf '%s %s in %s (%s s, %s)\n' "$NAME" "$VERSION" "$DIR" "$((SECONDS - since))" \
        "$(du -sh "$DIR" | cut -f1)"
}

cmd_version() {
    bus "$@"
    [ -f "$DIR/installed-$VERSION" ] || die "not installed: $DIR"
    printf '%s\n' "$VERSION"
}

# --- nodes ------------------------------------------------------------------

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

# A TCP port that is free now, for administration: below those that the kernel
# gives to outgoing connections, which would take it meanwhile.
free_port() {
    python3 - <<'PY'
import random, socket
while True:
    port = random.randrange(20000, 32768)
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
PY
}

node() { NODE=$DIR/run/${1:?port}; }

# An instance as "artemis create" makes it, with our broker.xml and an administrator.
prepare_artemis() {
    if [ ! -d "$NODE/etc" ]; then
        "$HOME_OF/bin/artemis" create --silent --user guest --password guest --role amq \
            --host 127.0.0.1 --require-login --no-web --no-autotune --nio "$NODE" > "$NODE/create.log" 2>&1 ||
            { cat "$NODE/create.log" >&2; die "no instance could be made"; }
        printf '\nadmin = admin\n' >> "$NODE/etc/artemis-users.properties"
        printf '\nadmin = admin\n' >> "$NODE/etc/artemis-roles.properties"
    fi
    cp "$CONFIG/broker.xml" "$NODE/etc/broker.xml"
    PROPERTIES=(-Damqp.host=127.0.0.1 "-Damqp.port=$1" "-Dadmin.port=$ADMIN" "-Dopenstack.full=$FULL" -XX:+UseSerialGC
        -Xms64M -Xmx512M --add-opens java.base/jdk.internal.misc=ALL-UNNAMED)
    RUN=(env "JAVA_ARGS=${PROPERTIES[*]} ${JAVABUS_ARGS:-}" "ARTEMIS_INSTANCE=$NODE" "$NODE/bin/artemis" run)
}

prepare_brokerj() {
    sed "s/104857600/$FULL/" "$CONFIG/broker.json" > "$NODE/broker.json"
    read -r -a PROPERTIES <<< "${JAVABUS_ARGS:-}"
    RUN=(java -XX:+UseSerialGC -Xms64M -Xmx512M -XX:MaxDirectMemorySize=512M -Dqpid.port.host=127.0.0.1
        "-Dqpid.amqp_port=$1" "-Dqpid.http_port=$ADMIN" "-DQPID_HOME=$HOME_OF" "-DQPID_WORK=$NODE"
        ${PROPERTIES[@]+"${PROPERTIES[@]}"} -cp "$HOME_OF/lib/*" org.apache.qpid.server.Main
        --initial-config-path "$NODE/broker.json")
}

cmd_start() {
    local port=${2:?port} deadline
    bus "$1"; node "$port"
    [ -f "$DIR/installed-$VERSION" ] || die "not installed: $DIR"
    if alive "$NODE/pid"; then echo "already running on 127.0.0.1:$port"; return; fi
    mkdir -p "$NODE"
    [ -s "$NODE/admin" ] || free_port > "$NODE/admin"
    ADMIN=$(cat "$NODE/admin")
    "prepare_$1" "$port"
    : > "$NODE/output"
    # the programs make files where they are
    (cd "$NODE" && exec setsid "${RUN[@]}" </dev/null >"$NODE/output" 2>&1 9>&-) &
    echo $! > "$NODE/pid"
    deadline=$((SECONDS + ${JAVABUS_START_TIMEOUT:-60}))
    until grep -q "$READY" "$NODE/output"; do
        alive "$NODE/pid" || { tail -n 30 "$NODE/output" >&2; die "$NAME on port $port died at start"; }
        [ "$SECONDS" -lt "$deadline" ] || die "$NAME on port $port is not up in time: $NODE/output"
        sleep 0.1
    done
    echo "$NAME $VERSION ready on 127.0.0.1:$port"
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
    local pid
    bus "$1"; node "${2:-}"
    if alive "$NODE/pid"; then
        pid=$(cat "$NODE/pid")
        kill -TERM "$pid"
        wait_gone 20 "$pid" || cmd_kill "$1" "$2"
    fi
    rm -f "$NODE/pid"
    if [ "${3:-}" = --wipe ]; then rm -rf "$NODE"; fi
}

cmd_kill() {
    bus "$1"; node "${2:-}"
    if alive "$NODE/pid"; then
        kill -KILL "$(cat "$NODE/pid")" 2>/dev/null || true
        wait_gone 10 "$(cat "$NODE/pid")" || true
    fi
    rm -f "$NODE/pid"
}

cmd_signal() {
    bus "$1"; node "${2:-}"
    alive "$NODE/pid" || die "no node runs there: $NODE"
    kill -"${3:?signal}" "$(cat "$NODE/pid")"
}

cmd_ctl() {
    local kind=$1
    bus "$kind"; node "${2:-}"; shift 2
    [ -s "$NODE/admin" ] || die "no node there: $NODE"
    if [ "$kind" = artemis ]; then
        exec env JAVA_ARGS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1" "$NODE/bin/artemis" "$@" \
            --user admin --password admin --url "tcp://127.0.0.1:$(cat "$NODE/admin")" </dev/null
    fi
    exec python3 - "$(cat "$NODE/admin")" "$@" <<'PY'
import base64, sys, urllib.request
request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/api/latest/{sys.argv[2]}")
request.add_header("Authorization", "Basic " + base64.b64encode(b"admin:admin").decode())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(request, timeout=20).read().decode())
PY
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
    install | start | stop | kill | signal | ctl | version) "cmd_$command" "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
