#!/usr/bin/env bash
# Installs what is missing of the packages that deploy/packages.txt lists under the tags given.
#   deploy/install-packages.sh run build test long bench
# Where nothing is missing it needs neither root nor network.  No service is started, and none of
# the packages asked for is left starting at the next boot: the quickstart and the tests run their
# own etcd on their own ports.  Services that were there before are left as they are.
set -euo pipefail

say() { echo "install-packages: $*"; }
die() {
    echo "install-packages: $*" >&2
    exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
list=$here/packages.txt
policy=/usr/sbin/policy-rc.d
policy_mark='# put here by snowfleet install-packages.sh while it installs'
lock=/run/lock/snowfleet-install-packages

[[ $# -gt 0 ]] || die "usage: install-packages.sh TAG... (run, build, test, long, bench)"
for tag in "$@"; do
    case $tag in
    run | build | test | long | bench) ;;
    *) die "unknown tag $tag: run, build, test, long or bench" ;;
    esac
done
for program in dpkg-query apt-get; do
    command -v "$program" >/dev/null ||
        die "no $program, so this is no Debian system: install by hand what $list names"
done

wanted() {
    local package tag
    while read -r package tag _; do
        [[ -n $package && $package != '#'* ]] || continue
        [[ " $tags " == *" $tag "* ]] || continue
        case $package in
        nodejs | npm) command -v node >/dev/null && continue ;;
        esac
        echo "$package"
    done <"$list"
}

# Sets missing to those of the wanted packages that are not installed.
find_missing() {
    local package
    local -A installed=()
    while read -r package; do
        installed[$package]=1
    done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    missing=()
    while read -r package; do
        [[ -n ${installed[$package]:-} ]] || missing+=("$package")
    done < <(wanted)
}

tags="$*"
missing=()
find_missing
if [[ ${#missing[@]} -eq 0 ]]; then
    say "nothing is missing ($tags)"
    exit 0
fi
say "missing (${#missing[@]}): ${missing[*]}"

if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null ||
        die "not root and no sudo; as root: apt-get install --no-install-recommends ${missing[*]}"
    say "going on with sudo"
    exec sudo -- "$BASH" "$here/install-packages.sh" "$@"
fi

# One at a time: a second run must not see its services start because the first one took its policy
# file away.  The lock goes with this process; apt's children do not inherit it.
mkdir -p "${lock%/*}"
exec {lock_fd}>"$lock"
flock -n "$lock_fd" || {
    say "another run is installing; waiting for it"
    flock -w 1800 "$lock_fd" || die "gave up waiting for the other run"
}
find_missing
if [[ ${#missing[@]} -eq 0 ]]; then
    say "the other run has installed everything"
    exit 0
fi

is_our_policy() { [[ -f $policy ]] && grep -qxF "$policy_mark" "$policy"; }
remove_policy() {
    if is_our_policy; then
        rm -f "$policy"
    fi
}
trap remove_policy EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
# invoke-rc.d and deb-systemd-invoke ask this file whether a service may start; 101 is "forbidden".
# One of ours that is here already was left by a run that was killed.
if [[ -e $policy || -L $policy ]] && ! is_our_policy; then
    say "$policy exists and is respected: it decides whether services start"
else
    printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >"$policy.snowfleet"
    chmod 755 "$policy.snowfleet"
    mv "$policy.snowfleet" "$policy"
fi

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        -o Dpkg::Use-Pty=0 "$@" {lock_fd}>&- </dev/null
}

started=$SECONDS
say "apt-get update"
apt -q update || say "apt-get update failed; trying with the package lists that are here"
say "apt-get install ${missing[*]}"
code=0
apt -q install --no-install-recommends "${missing[@]}" || code=$?

# Packages enable their own units and init scripts.  Those we have just brought in do not start at
# boot; `systemctl enable` brings one back.  (Also after a failure: some may be in place.)
disable_boot() {
    local package path name
    for package in "${missing[@]}"; do
        while read -r path; do
            name=${path##*/}
            case $path in
            /lib/systemd/system/*/* | /usr/lib/systemd/system/*/*) ;;
            /lib/systemd/system/*@.* | /usr/lib/systemd/system/*@.*) ;; # a template has no instance yet
            /lib/systemd/system/*.service | /usr/lib/systemd/system/*.service | \
                /lib/systemd/system/*.socket | /usr/lib/systemd/system/*.socket | \
                /lib/systemd/system/*.timer | /usr/lib/systemd/system/*.timer)
                disable_unit "$name" "$path"
                ;;
            /etc/init.d/*)
                if compgen -G "/etc/rc[2345S].d/S??$name" >/dev/null; then
                    say "$package: $name is not to start at boot (init script)"
                    update-rc.d "$name" disable >/dev/null 2>&1 ||
                        say "warning: update-rc.d $name disable failed"
                fi
                ;;
            esac
        done < <(dpkg-query -L "$package" 2>/dev/null)
    done
}
disable_unit() {
    # Disabled units, and those without an [Install] part, have no link to themselves.
    [[ -n $(find /etc/systemd/system -type l -lname "*/systemd/system/$1" -print -quit 2>/dev/null) ]] ||
        return 0
    say "$package: $1 is not to start at boot"
    if command -v systemctl >/dev/null; then
        systemctl --no-reload disable "$1" >/dev/null 2>&1 || true
    fi
    # Without systemd, or where systemctl could not: the links themselves.
    find /etc/systemd/system -type l -lname "*/systemd/system/$1" -delete
}
disable_boot

[[ $code -eq 0 ]] || die "apt-get ended with code $code; it said why above"
find_missing
[[ ${#missing[@]} -eq 0 ]] || die "still missing: ${missing[*]}"
say "done in $((SECONDS - started)) s"
