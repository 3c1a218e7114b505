# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Set-up shared by tools/demo.sh, tools/pipeline-demo.sh and tools/test.sh. To be sourced:
#
#     . tools/lib.sh
#     amqp1_setup runtime|spark|test     # system packages, .venv, package; sets $VENV
#
# Nothing is done twice: .venv is kept as long as the hash of what it was made
# from (requirements, metadata, interpreter) is the same.
# Environment: AMQP1_PYTHON (interpreter), AMQP1_CACHE (cache folder).

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$TOP/.venv
AMQP1_CACHE=${AMQP1_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/amqp1-driver}
export AMQP1_CACHE

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# --- the interpreter ------------------------------------------------------

_python_ok() {
    "$1" -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info < (3, 15)))' 2>/dev/null
}

# Sets PYTHON: the first interpreter that starts and is new enough.
find_python() {
    local candidate
    for candidate in ${AMQP1_PYTHON:+"$AMQP1_PYTHON"} python3 python3.11 python3.12 python3.13 \
            /usr/bin/python3; do
        if command -v "$candidate" >/dev/null && _python_ok "$candidate"; then
            # what it really is: a version manager's shim changes its mind with the folder
            PYTHON=$("$candidate" -c 'import sys; print(sys.executable)')
            return 0
        fi
    done
    return 1
}

# --- system packages --------------------------------------------------------

_compiler_ok() { command -v cc >/dev/null || command -v gcc >/dev/null; }
_headers_ok() {
    [ -f "$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]
}
_pkgconfig_ok() { command -v pkg-config >/dev/null && pkg-config --exists "$1"; }
_mechanisms_ok() {
    compgen -G '/usr/lib*/sasl2/libplain.so*' >/dev/null ||
        compgen -G '/usr/lib/*/sasl2/libplain.so*' >/dev/null
}
# Java 17 or newer, where PySpark looks for it.
_java_ok() {
    local java=java version
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    version=$("$java" -version 2>&1) || return 1
    version=$(sed -n 's/.* version "\([0-9]*\).*/\1/p' <<< "$version" | head -1)
    [ "${version:-0}" -ge 17 ]
}

# Prints one line for every capability that the build or the run needs and that
# is not there. The capability counts, not the package: a Python from a version
# manager needs no python3-dev.
missing_capabilities() {
    if find_python; then
        "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || say "venv module of Python (python3-venv)"
        _headers_ok || say "headers of Python (python3-dev)"
    else
        say "Python 3.11 or newer (python3)"
    fi
    _compiler_ok || say "C compiler (gcc, libc6-dev)"
    _pkgconfig_ok libsasl2 || say "Cyrus SASL headers (pkg-config, libsasl2-dev)"
    _pkgconfig_ok openssl || say "OpenSSL headers (pkg-config, libssl-dev)"
    _mechanisms_ok || say "SASL mechanisms (libsasl2-modules)"
    command -v git >/dev/null || say "git (git)"
    [ "$1" != spark ] || _java_ok || say "Java 17 or newer (default-jre-headless)"
}

# Tools that some tests use; without them these tests or checks are left out.
missing_test_tools() {
    command -v shellcheck >/dev/null || say shellcheck
    command -v npm >/dev/null || say npm
    command -v java >/dev/null || say default-jre-headless
    command -v mvn >/dev/null || say maven
}

# The packages that bindep.txt names for dpkg: those without a profile, and
# those of this one.
bindep_packages() {
    awk -v profile="$1" '
        /^[[:space:]]*(#|$)/ { next }
        {
            name = $1; rest = substr($0, length($1) + 1)
            if (rest ~ /platform:/ && rest !~ /platform:dpkg/) next
            if (rest ~ /[[ ](test|spark)[] ]/ && rest !~ "[[ ]" profile "[] ]") next
            print name
        }' "$TOP/bindep.txt"
}

# The command of a package may have come by other means, whose packages can conflict with
# Debian's (a vendor's nodejs brings npm along and conflicts with the package npm).
_has_command() {
    case $1 in
        nodejs) command -v node ;;
        maven) command -v mvn ;;
        default-jre-headless) _java_ok ;;
        npm | git | gcc | shellcheck) command -v "$1" ;;
        *) return 1 ;;
    esac >/dev/null
}

_not_installed() {
    local package
    while read -r package; do
        ! _has_command "$package" || continue
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            say "$package"
    done
}

# Sets AS_ROOT to the prefix that lets apt-get install; fails if there is none.
_may_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" -eq 0 ]; then AS_ROOT=(env)
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then AS_ROOT=(sudo -n env)
    else return 1
    fi
}

_apt_install() {
    local options=(-qq -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    say "installing with apt: $*"
    "${AS_ROOT[@]}" DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update >/dev/null &&
        "${AS_ROOT[@]}" DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" \
            --no-install-recommends install "$@" >/dev/null
}

# ensure_system PROFILE: installs what is missing where that is allowed, else
# names it. Stops only for what the package itself needs.
ensure_system() {
    local profile=$1 missing tools=() packages=()
    missing=$(missing_capabilities "$profile")
    [ "$profile" != test ] || mapfile -t tools < <(missing_test_tools)
    if [ -n "$missing" ] || [ ${#tools[@]} -gt 0 ]; then
        if command -v dpkg-query >/dev/null; then
            # What is there already by other means (a Python of a version manager) is not asked for.
            if [ -n "$missing" ]; then mapfile -t packages < <(bindep_packages "$profile" | _not_installed)
            else packages=("${tools[@]}"); fi
        fi
        if [ ${#packages[@]} -gt 0 ] && _may_install; then
            _apt_install "${packages[@]}" || say "apt-get failed; going on with what is there"
        elif [ -n "$missing" ]; then
            say "This system lacks:"; say "$missing" | sed 's/^/  - /'
            [ ${#packages[@]} -eq 0 ] || say "As root: apt-get install ${packages[*]}"
        else
            say "not there, the tests that use it are left out: ${tools[*]}"
        fi
        missing=$(missing_capabilities "$profile")
    fi
    [ -z "$missing" ] || die "cannot go on without: $(say "$missing" | paste -sd';' | sed 's/;/; /g')"
    find_python || die "no Python 3.11 or newer found"
}

# --- the virtual environment ------------------------------------------------

# pbr takes the version from git: the commits after setup.cfg's version. Where
# git cannot tell (an archive, another user's checkout, a history of one commit,
# as a shallow clone has it) setup.cfg's version is taken as it stands.
version_for_pbr() {
    local commits
    [ -z "${PBR_VERSION:-}" ] && [ ! -f "$TOP/PKG-INFO" ] || return 0
    commits=$(git -C "$TOP" rev-list --count HEAD 2>/dev/null)
    if [ "${commits:-0}" -lt 2 ] && ! git -C "$TOP" describe >/dev/null 2>&1; then
        PBR_VERSION=$(sed -n 's/^version *= *//p' "$TOP/setup.cfg")
        export PBR_VERSION
    fi
}

_inputs_hash() {
    # pip's own configuration is left out on purpose: a mirror changes nothing.
    { "$PYTHON" -c 'import sys; print(sys.executable, sys.version)'
      printf '%s\n' "$TOP" "$1"
      cat "$TOP"/setup.cfg "$TOP"/setup.py "$TOP"/requirements.txt "$TOP"/amqp1_driver/engine/_speedups/* \
          "$TOP"/amqp1_driver/codec/_plain.c
      [ "$1" != test ] || cat "$TOP"/test-requirements.txt "$TOP"/doc/requirements.txt
      sed -n '/^\[build-system\]/,/^$/p' "$TOP/pyproject.toml"
    } | sha256sum | cut -c1-64
}

# proton_complete PYTHON: does this interpreter's proton have SASL and TLS?
proton_complete() {
    "$1" - <<'PY'
import sys
import proton
sys.exit(not (proton.SASL.extended() and proton.SSL.present()))
PY
}

# ensure_proton PYTHON: a wheel built where headers were missing may lie in
# pip's cache; such a proton says so, and is built again from source. The good
# wheel is kept for the next environment.
ensure_proton() {
    local build version wheels=$AMQP1_CACHE/wheels
    local pip=("$1" -m pip --disable-pip-version-check -q)
    proton_complete "$1" && return 0
    say "this build of python-qpid-proton has no SASL or no TLS: building it again"
    version=$("$1" -c 'from importlib.metadata import version as v; print(v("python-qpid-proton"))')
    build=$(mktemp -d) || return 1
    if ! "${pip[@]}" wheel --no-cache-dir --no-deps --no-binary python-qpid-proton -w "$build" \
                "python-qpid-proton==$version" ||
            ! "${pip[@]}" install --no-deps --force-reinstall "$build"/*.whl; then
        rm -rf "$build"
        die "python-qpid-proton could not be built from source"
    fi
    if proton_complete "$1"; then mkdir -p "$wheels" && mv -f "$build"/*.whl "$wheels/"; fi
    rm -rf "$build"
    proton_complete "$1" || die "python-qpid-proton has no SASL or no TLS even after a fresh build:" \
        "are pkg-config, libsasl2-dev and libssl-dev installed?"
}

# venv_install PYTHON REQUIREMENT...: pip install, with a complete proton.
venv_install() {
    local python=$1; shift
    mkdir -p "$AMQP1_CACHE/wheels"
    PIP_FIND_LINKS="${PIP_FIND_LINKS:-} $AMQP1_CACHE/wheels" \
        "$python" -m pip --disable-pip-version-check install -q "$@" || return 1
    ensure_proton "$python"
}

_fill_venv() {
    local profile=$1 requirements=(-e "$TOP")
    [ "$profile" != spark ] || requirements=(-e "${TOP}[spark]")
    [ "$profile" != test ] ||
        requirements+=(-r "$TOP/test-requirements.txt" -r "$TOP/doc/requirements.txt")
    if [ ! -x "$VENV/bin/python" ] || ! _python_ok "$VENV/bin/python" ||
            [ "$(cat "$VENV/.amqp1-base" 2>/dev/null)" != "$PYTHON" ]; then
        rm -rf "$VENV"
        "$PYTHON" -m venv "$VENV" || return 1
        say "$PYTHON" > "$VENV/.amqp1-base"
    fi
    say "installing the package ($profile) into .venv; proton is compiled, which takes a minute or two"
    venv_install "$VENV/bin/python" "${requirements[@]}"
}

# ensure_venv PROFILE: .venv with the package (editable) and, for "test", all
# that the checks need. Two callers at a time wait for each other.
ensure_venv() {
    local profile=$1 stamp wanted
    stamp=$VENV/.amqp1-$profile
    wanted=$(_inputs_hash "$profile")
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return 0
    (
        flock 9
        [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0
        version_for_pbr
        _fill_venv "$profile" && say "$wanted" > "$stamp"
    ) 9> "$TOP/.venv.lock" || die "setting up .venv failed (see above)"
}

amqp1_setup() {
    ensure_system "$1"
    ensure_venv "$1"
}
