# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages unpacked in a private folder, which run on any host of the same processor:
# nothing of the system is changed, no maintainer script runs. Root or not. To be sourced by
# tools/rabbitmq.sh and tools/mariadb.sh, which define die:
#
#     debian_sources SUITE DIR             # reads the lists of packages into DIR/apt
#     debian_closure PATTERN NAME...       # prints the packages NAME and what they need of PATTERN
#     debian_unpack DIR NAME...            # downloads them into DIR/root; sets $LOADER and $LIBS
#     debian_patch FILE...                 # has executables find these libraries
#
# The packages come from the mirror that this machine's own apt uses, or from
# AMQP1_DEBIAN_MIRROR; apt checks their signatures.

# apt with lists, cache and status of its own, below $APT
_private_apt() {
    local tool=$1; shift
    "$tool" -q \
        -o Dir::Etc::SourceList="$APT/sources.list" -o Dir::Etc::SourceParts=/nonexistent \
        -o Dir::Etc::Preferences=/nonexistent -o Dir::Etc::PreferencesParts=/nonexistent \
        -o Dir::State="$APT/state" -o Dir::Cache="$APT/cache" -o Dir::State::status="$APT/status" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke-Success::=/bin/true \
        -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

_find_mirror() {
    local mirror=${AMQP1_DEBIAN_MIRROR:-}
    # shellcheck disable=SC2016 # apt's own variable
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -m1 -E '/debian/*$') || true
    [ -n "$mirror" ] || die "apt of this machine knows no Debian mirror; set AMQP1_DEBIAN_MIRROR to one"
    printf '%s\n' "$mirror"
}

debian_sources() {
    local suite=$1 dir=$2 keyring=/usr/share/keyrings/debian-archive-keyring tool mirror
    for tool in apt-get apt-cache dpkg-deb; do
        command -v "$tool" >/dev/null || die "$tool is not there: this installs Debian packages"
    done
    [ -f "$keyring.gpg" ] && keyring=$keyring.gpg || keyring=$keyring.pgp
    [ -f "$keyring" ] || die "Debian's archive keys are not there (package debian-archive-keyring)"
    mirror=$(_find_mirror)
    APT=$dir/apt; rm -rf "$APT"; mkdir -p "$APT"/{state/lists/partial,cache/archives/partial,debs}
    : > "$APT/status"
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" > "$APT/sources.list"
    _private_apt apt-get update > "$APT/log" 2>&1 || { cat "$APT/log" >&2; die "apt-get update failed"; }
}

# What the maintainer scripts would need (adduser, logrotate, perl, ...) stays out by the pattern,
# since no such script is run.
debian_closure() {
    local pattern=$1 todo found=() name
    shift
    todo=("$@")
    declare -A seen=()
    while [ ${#todo[@]} -gt 0 ]; do
        found=()
        for name in "${todo[@]}"; do seen[$name]=1; done
        while read -r name; do
            [ -n "${seen[$name]:-}" ] || { found+=("$name"); seen[$name]=1; }
        done < <(_private_apt apt-cache depends --no-recommends --no-suggests --no-conflicts \
                     --no-breaks --no-replaces --no-enhances "${todo[@]}" 2>/dev/null |
                 sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}-\{0,1\}Depends: //p' |
                 grep -E "$pattern" | grep -vE ':(any|[a-z0-9]+)$' |
                 grep -vE -- '-(dev|data|doc|x11|wx|nox)$|^lib(pam|perl|python|sys-hostname)' | sort -u)
        todo=(${found[@]+"${found[@]}"})
    done
    printf '%s\n' "${!seen[@]}" | sort
}

debian_unpack() {
    local dir=$1 root=$1/root deb
    shift
    (cd "$APT/debs" && _private_apt apt-get download "$@") > "$APT/log" 2>&1 ||
        { tail -n 20 "$APT/log" >&2; die "download failed"; }
    rm -rf "$root"; mkdir -p "$root"
    for deb in "$APT"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
    rm -rf "$root"/usr/share/{doc,man,lintian,locale} "$root"/usr/lib/*/gconv "$APT"
    # The loader keeps its place in /lib64 or /lib, a link into usr/lib on some suites.
    LOADER=$(find "$root" -name 'ld-linux-*.so.*' ! -type l | head -n1)
    [ -n "$LOADER" ] || die "no dynamic loader among the unpacked packages"
    LIBS=$(dirname "$LOADER")
    if [ -d "$root/lib" ] && [ ! -L "$root/lib" ]; then LIBS=$LIBS:$root/usr/lib/$(basename "$LIBS"); fi
    PATCHELF=("$LOADER" --library-path "$LIBS" "$root/usr/bin/patchelf")
}

# Points executables at the unpacked C library, so that it does not matter which one the host has.
debian_patch() {
    local file
    for file in "$@"; do
        head -c4 "$file" | grep -q ELF || continue
        "${PATCHELF[@]}" --print-interpreter "$file" >/dev/null 2>&1 || continue
        "${PATCHELF[@]}" --set-interpreter "$LOADER" --force-rpath --set-rpath "$LIBS" "$file"
    done
}
