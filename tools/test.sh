#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The whole test suite: set-up, checks, tests, oslo.messaging's own functional
# suite on every bus, documentation. Goes through all steps, prints a table and
# exits 1 if any of them failed.
#
#   bash tools/test.sh                  what the merge gate runs, below 25 minutes on 2 cores
#   bash tools/test.sh --full           with the full matrix of the functional suite and the bars at full size
#   bash tools/test.sh --no-functional  without that suite

set -uo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"

MATRIX=short
MATRIX_SECONDS=900
FOLDER_SECONDS=900
for argument in "$@"; do
    case $argument in
        --full) MATRIX=full MATRIX_SECONDS=5400 FOLDER_SECONDS=2400; export AMQP1_LONG=1 ;;
        --no-functional) MATRIX= ;;
        *) die "unknown argument $argument (--full, --no-functional)" ;;
    esac
done

# Modules without I/O: every branch of them is run by the unit tests.
PURE='amqp1_driver/codec/*,amqp1_driver/codec.py,amqp1_driver/policy/*,amqp1_driver/addressing/*'
PURE+=',amqp1_driver/exceptions.py,amqp1_driver/options/*,amqp1_driver/flowframe.py'

PASSED=0 FAILED=0 TABLE=()
BESIDE_PID='' AHEAD_PID=''
# a shell without job control has what is in the background ignore ^C
# shellcheck disable=SC2086  # of none, one or both
trap 'kill $BESIDE_PID $AHEAD_PID 2>/dev/null' EXIT

# step NAME SECONDS COMMAND...: runs it with a time limit and notes how it went
step() {
    local name=$1 limit=$2 since=$SECONDS code=0 word=passed
    shift 2
    printf '\n=== %s ===\n' "$name"
    timeout -k 20 "$limit" "$@" || code=$?
    [ "$code" -ne 124 ] || say "$name: not finished in $limit s"
    if [ "$code" -eq 0 ]; then PASSED=$((PASSED + 1)); else FAILED=$((FAILED + 1)); word=FAILED; fi
    TABLE+=("$(printf '%-34s %-7s %6d s   exit %d' "$name" "$word" "$((SECONDS - since))" "$code")")
}

# begin NAME SECONDS COMMAND...: a step that goes on beside others, because it mostly waits; end
# waits for it, then shows what it said
begin() {
    local limit=$2
    BESIDE=$1 BESIDE_SINCE=$SECONDS BESIDE_LOG=$(mktemp)
    shift 2
    printf '\n=== %s: begins, and goes on beside what follows ===\n' "$BESIDE"
    timeout -k 20 "$limit" "$@" >"$BESIDE_LOG" 2>&1 &
    BESIDE_PID=$!
}

# ahead COMMAND...: fills a cache for a later step, which waits for it or says what failed
ahead() {
    nice -n 19 timeout -k 20 900 "$@" >/dev/null 2>&1 &
    AHEAD_PID=$!
}

end() {
    local code=0 word=passed
    [ -n "${BESIDE_PID:-}" ] || return 0
    wait "$BESIDE_PID" || code=$?
    printf '\n=== %s ===\n' "$BESIDE"
    cat "$BESIDE_LOG"
    rm -f "$BESIDE_LOG"
    [ "$code" -ne 124 ] || say "$BESIDE: not finished in time"
    if [ "$code" -eq 0 ]; then PASSED=$((PASSED + 1)); else FAILED=$((FAILED + 1)); word=FAILED; fi
    TABLE+=("$(printf '%-34s %-7s %6d s   exit %d  (beside others)' "$BESIDE" "$word" \
        "$((SECONDS - BESIDE_SINCE))" "$code")")
    BESIDE_PID=
}

# The folders below tests/ that hold tests, but for those named.
test_folders() {
    local folder
    for folder in tests/*/; do
        folder=${folder%/}
        case " $* functional " in *" ${folder#tests/} "*) continue ;; esac
        if compgen -G "$folder/test_*.py" >/dev/null || compgen -G "$folder/*/test_*.py" >/dev/null
        then say "$folder"; fi
    done
}

folders() {
    local folder
    for folder in "$@"; do
        step "${folder#tests/} tests" "$FOLDER_SECONDS" \
            "$BIN/python" -m pytest -q --ignore=tests/pipeline/crash "$folder"
    done
}

docs() {
    # reno needs the whole history
    if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
        "$BIN/reno" lint || return 1
    fi
    [ ! -f doc/source/conf.py ] ||
        "$BIN/sphinx-build" -q -W --keep-going -b html doc/source doc/build/html || return 1
    "$BIN/sphinx-build" -q -W --keep-going -b html releasenotes/source releasenotes/build/html
}
export -f docs

cd "$TOP" || die "cannot enter $TOP"
SECONDS=0
say "=== set-up ==="
amqp1_setup test
BIN=$VENV/bin
export BIN
TABLE+=("$(printf '%-34s %-7s %6d s' set-up passed "$SECONDS")")
ahead bash tools/cloud.sh --prepare
DEVSTACK=(devstack/settings devstack/plugin.sh devstack/lib/* tests/devstack/*.sh)

step "lint: ruff" 120 "$BIN/ruff" check .
step "format: ruff" 120 "$BIN/ruff" format --check --quiet .
step "types: mypy --strict" 300 "$BIN/mypy" --strict amqp1_driver
step "layers: import-linter" 120 "$BIN/lint-imports"
if command -v shellcheck >/dev/null; then
    step "lint: shellcheck" 120 shellcheck -x -s bash tools/*.sh .ci/run "${DEVSTACK[@]}"
else
    say "shellcheck is not there: tools/ and devstack/ not linted"
fi
# E006 is the length of lines, as devstack itself has it
step "lint: bashate" 60 "$BIN/bashate" -i E006 -e E042 "${DEVSTACK[@]}"
# What mostly waits runs beside tests whose deadlines are of many seconds, or which have none. The
# others measure times, or need both cores.
WITH_SUITE=(protocol bus devstack mesh cli bench fuzz)
WITH_CRASHES=(contract pipeline)
mapfile -t OTHERS < <(test_folders unit buses "${WITH_SUITE[@]}" "${WITH_CRASHES[@]}")
if [ -n "$MATRIX" ]; then
    begin "oslo.messaging's suite ($MATRIX)" "$MATRIX_SECONDS" \
        "$BIN/python" -m tests.functional.run --matrix "$MATRIX"
fi
rm -f .coverage .coverage.*
step "unit tests" 600 "$BIN/python" -m pytest -q --cov=amqp1_driver --cov-branch --cov-report= tests/unit
step "branch coverage of pure modules" 60 \
    "$BIN/coverage" report --include="$PURE" --fail-under=100
folders "${WITH_SUITE[@]/#/tests/}"
end
begin "pipeline: crash tests, and buses" "$((2 * FOLDER_SECONDS))" \
    "$BIN/python" -m pytest -q tests/pipeline/crash tests/buses
folders "${WITH_CRASHES[@]/#/tests/}"
end
begin "documentation" 300 bash -c docs
folders ${OTHERS[@]+"${OTHERS[@]}"}
if [ "$MATRIX" = full ]; then
    for bus in router broker rabbitmq-4.3 rabbitmq-4.0 artemis broker-j; do
        step "cloud of real services on $bus" 900 bash tools/cloud.sh --bus "$bus"
    done
else
    step "cloud of real services (short)" 600 bash tools/cloud.sh --short
fi
end

printf '\n=== summary (%d s) ===\n' "$SECONDS"
printf '%s\n' "${TABLE[@]}"
printf '\n%d passed, %d failed\n' "$PASSED" "$FAILED"
[ "$FAILED" -eq 0 ]
