#!/usr/bin/env bash
# Snowfleet on one machine, from nothing to unique IDs: installs what is missing, builds, starts an
# etcd, two coordinators and three workers on loopback, takes IDs, kills a worker and shows what
# becomes of its machine ID, and stays until Ctrl-C.
#
#   deploy/quickstart.sh [--once] [--base-port PORT] [--dir DIR] [--no-install]
#
#   --once        do all that, stop everything and exit 0; 1 when something was not as it should be
#   --base-port   the first of the 20 ports that are used (default: from 7600 on, the first free 20)
#   --dir         where etcd's data and the logs go while it runs (default: a new folder in /tmp);
#                 must not exist, or be empty
#   --no-install  do not look for missing packages
#
# At the end every process that it started is stopped and DIR is removed.  The programs stay in
# build/quickstart of the repository (or in $SNOWFLEET_BUILD_DIR/quickstart), so that the next run
# is quick.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${SNOWFLEET_BUILD_DIR:-$root/build}/quickstart
etcd_pid='' dir='' made_dir=no once=no base_port='' install=yes
declare -A pids=()

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
die() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

while [[ $# -gt 0 ]]; do
    case $1 in
    --once) once=yes ;;
    --no-install) install=no ;;
    --base-port=* | --dir=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
    --base-port | --dir)
        [[ $# -ge 2 ]] || { echo "quickstart: $1 needs a value" >&2 && exit 64; }
        if [[ $1 == --dir ]]; then dir=$2; else base_port=$2; fi
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "quickstart: unknown argument $1; see --help" >&2
        exit 64
        ;;
    esac
    shift
done
if [[ -n $base_port && ! $base_port =~ ^[1-9][0-9]{0,4}$ ]] || [[ ${base_port:-1024} -lt 1024 || ${base_port:-1024} -gt 65516 ]]; then
    echo "quickstart: --base-port=$base_port: must be 1024..65516" >&2
    exit 64
fi

# Settings of the user's own shell, or a proxy, are not for this fleet.
while read -r name; do unset "$name"; done < <(compgen -e | grep -E "^(SNOWFLEET|ETCD|ETCDCTL)_" || true)
export no_proxy='127.0.0.1,localhost' NO_PROXY='127.0.0.1,localhost'

stop_process() { # PID: asks, waits up to 6 s, insists
    local pid=$1 i
    kill -TERM "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 60; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

clean_up() {
    local code=$? name
    trap - EXIT
    trap '' INT TERM HUP
    if [[ $code -ne 0 && $code -lt 128 && -n $dir && -d $dir && ${#pids[@]} -gt 0 ]]; then
        echo "quickstart: the last lines of the logs:" >&2
        tail -n 5 "$dir"/*.log >&2 || true
    fi
    if [[ ${#pids[@]} -gt 0 || -n $etcd_pid ]]; then
        step "Stopping everything"
        local stopping=()
        for name in "${!pids[@]}"; do
            stop_process "${pids[$name]}" &
            stopping+=($!)
        done
        [[ ${#stopping[@]} -eq 0 ]] || wait "${stopping[@]}"
        [[ -z $etcd_pid ]] || stop_process "$etcd_pid"
    fi
    if [[ $made_dir == yes ]]; then
        rm -rf "$dir"
    elif [[ -n $dir && -d $dir && -e $dir/.snowfleet-quickstart ]]; then
        find "$dir" -mindepth 1 -delete
    fi
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- set-up ----

if [[ $install == yes ]]; then
    step "Packages"
    "$root/deploy/install-packages.sh" run build
fi

step "Building (into $build)"
mkdir -p "$build"
(
    flock 9 # another run may be building in the same folder
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$build.log" 2>&1 ||
        { cat "$build.log" >&2 && exit 1; }
    cmake --build "$build" --parallel "$(nproc)"
) 9>"$build.lock"
export PATH=$build/bin:$PATH

if [[ -z $dir ]]; then
    dir=$(mktemp -d /tmp/snowfleet-quickstart.XXXXXX)
    made_dir=yes
else
    [[ ! -e $dir || -z $(ls -A "$dir") ]] || die "--dir=$dir: is not empty"
    [[ -e $dir ]] || made_dir=yes
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    touch "$dir/.snowfleet-quickstart"
fi

in_use() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
block_in_use() { # FIRST-PORT
    local port
    for ((port = $1; port < $1 + 20; port++)); do
        ! in_use "$port" || return 0
    done
    return 1
}
if [[ -n $base_port ]]; then
    ! block_in_use "$base_port" || die "--base-port=$base_port: a port of $base_port..$((base_port + 19)) is in use"
else
    base_port=7600
    while block_in_use "$base_port"; do
        base_port=$((base_port + 20))
        [[ $base_port -lt 9600 ]] || die "no free block of 20 ports from 7600 on; name one with --base-port"
    done
fi

until_true() { # SECONDS WHAT COMMAND...: waits for a condition
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [[ $SECONDS -lt $deadline ]] || die "$what: not within the time"
        sleep 0.1
    done
}

etcd_url=http://127.0.0.1:$base_port
export SNOWFLEET_ETCD_ENDPOINTS=$etcd_url

# Own sessions, so that Ctrl-C reaches only this script, which stops them in order.
start() { # NAME PROGRAM ARGUMENT...
    local name=$1
    shift
    setsid "$@" >>"$dir/$name.log" 2>&1 </dev/null &
    pids[$name]=$!
}

step "Starting etcd at $etcd_url"
setsid etcd --name quickstart --data-dir "$dir/etcd" --listen-client-urls "$etcd_url" \
    --advertise-client-urls "$etcd_url" --listen-peer-urls "http://127.0.0.1:$((base_port + 1))" \
    --initial-advertise-peer-urls "http://127.0.0.1:$((base_port + 1))" \
    --initial-cluster "quickstart=http://127.0.0.1:$((base_port + 1))" \
    --auto-compaction-mode periodic --auto-compaction-retention 10m >>"$dir/etcd.log" 2>&1 </dev/null &
etcd_pid=$!
until_true 30 "etcd" curl -fsS "$etcd_url/health"
snowfleetctl init --new

# ---- the fleet ----

step "Starting two coordinators and three workers"
coordinator_url() { echo "http://127.0.0.1:$((base_port + 1 + $1))"; }
worker_url() { echo "http://127.0.0.1:$((base_port + 9 + $1))"; }
for i in 1 2; do
    start "coordinator-$i" snowfleet-coordinator --http-listen "127.0.0.1:$((base_port + 1 + i))"
done
start_worker() { # NUMBER IDENTITY; a short lease, so that one need not wait long for what follows
    start "worker-$1" snowfleet-worker --identity "$2" --http-listen "127.0.0.1:$((base_port + 9 + $1))" \
        --grpc-listen "127.0.0.1:$((base_port + 14 + $1))" --lease-ttl 5s --keepalive-interval 1s
}
for i in 1 2 3; do start_worker "$i" "demo/worker-$i"; done
for i in 1 2 3; do until_true 60 "worker $i" curl -fsS "$(worker_url "$i")/readyz"; done
snowfleetctl status

step "IDs from each worker"
ids=()
take() { # NUMBER COUNT
    local taken
    taken=$(curl -fsS -H 'Accept: text/plain' "$(worker_url "$1")/v1/ids?count=$2")
    mapfile -t -O "${#ids[@]}" ids <<<"$taken"
    printf 'worker %s: %s\n' "$1" "$(tr '\n' ' ' <<<"$taken")"
}
for i in 1 2 3; do take "$i" 3; done
echo "as JSON:  $(curl -fsS "$(worker_url 1)/v1/ids?count=1")"

step "What an ID says: snowfleetctl decode ${ids[0]}"
snowfleetctl decode "${ids[0]}"

step "Killing worker 2 with SIGKILL, and starting a replacement of the same name"
machine_of() { # NUMBER
    curl -fsS "$(worker_url "$1")/v1/status" | sed -n 's/.*"machine_id": *\([0-9]*\).*/\1/p' | head -n 1
}
old_machine=$(machine_of 2)
kill -KILL "${pids[worker-2]}"
wait "${pids[worker-2]}" 2>/dev/null || true
unset 'pids[worker-2]'
killed_at=$SECONDS
start_worker 4 demo/worker-2
until_true 30 "the replacement" curl -fsS "$(worker_url 4)/readyz"
new_machine=$(machine_of 4)
echo "machine ID $old_machine was worker 2's; its replacement serves as $new_machine after $((SECONDS - killed_at)) s:"
take 4 3
[[ $new_machine != "$old_machine" ]] || die "the replacement got a machine ID whose holder may be alive"
# A table row has blanks between its columns, so a word is looked for.
slot() { snowfleetctl machines --output json | tr -d '\n' | sed 's/},/},\n/g' | grep -E "\"machine_id\": *$old_machine[,}]"; }
slot_is() { slot | grep -q "\"state\": *\"$1\""; }
printf 'the slot of machine ID %s: ' "$old_machine"
if slot_is HELD; then printf 'HELD until its lease expires ... '; fi
until_true 30 "machine ID $old_machine" slot_is COOLING
echo "COOLING: it is free again when its horizon and the quiet time have passed:"
slot | sed 's/^[[{ ]*//;s/[]} ,]*$//'

duplicates=$(printf '%s\n' "${ids[@]}" | sort | uniq -d)
[[ -z $duplicates ]] || die "issued twice: $duplicates"
echo "${#ids[@]} IDs from 4 workers, no duplicates"

step "How far the clocks are apart: snowfleetctl skew"
# The killed worker is listed until its own lease has ended too.
skew_complete() { local code=0; snowfleetctl skew || code=$?; [[ $code -ne 3 ]]; }
until_true 30 "the skew report" skew_complete
skew_code=0
snowfleetctl skew || skew_code=$?
[[ $skew_code -le 1 ]] || die "the skew report says $skew_code"

step "The fleet"
printf '  etcd          %s\n' "$etcd_url"
for i in 1 2; do printf '  coordinator   %s/v1/status\n' "$(coordinator_url $i)"; done
for i in 1 3 4; do printf '  worker        %s/v1/ids\n' "$(worker_url $i)"; done
printf '  logs          %s\n' "$dir"
printf '  the tool      SNOWFLEET_ETCD_ENDPOINTS=%s %s status\n' "$etcd_url" "$build/bin/snowfleetctl"
if [[ $once == yes ]]; then
    exit 0
fi
printf '\nRunning until Ctrl-C.\n'
while true; do
    for name in "${!pids[@]}"; do
        kill -0 "${pids[$name]}" 2>/dev/null || die "$name has ended; see its log"
    done
    sleep 1 &
    wait $! || true
done
