#!/usr/bin/env bash
# Builds Snowfleet and runs its tests.
#
#   tests/run.sh [--all] [--fuzz-seconds=N] [--no-install] [STAGE...]
#
#   gcc    gcc, warnings are errors: every test
#   asan   clang with the address and undefined-behaviour sanitizers: unit and scenario tests, fuzz
#          targets (their corpus, then 5 s each of looking for more, or N), integration tests labelled
#          asan
#   tsan   clang with the thread sanitizer: tests labelled tsan
#   lint   cppcheck and clang-format
#
# An integration test that failed beside others is run once more, alone, and named at the end: its time
# limits are for a machine that has time.  What a sanitizer reported or what came twice fails for good, and
# so does any other test (tests/support/again.py).
#
# Without a stage it runs all four.  --all adds the tests labelled long (minutes more, and packages
# of their own).  What a fuzz target finds stands in asan/tests/fuzz/NAME in the
# folder of the builds.
# Missing packages are installed first (deploy/install-packages.sh); --no-install leaves that out.
# Builds go to build/ in the repository, or to $SNOWFLEET_BUILD_DIR, and are kept, so that the next
# run is quick.  Exit code 0 when every stage passed, 1 when one failed, 64 on a wrong argument.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=${SNOWFLEET_BUILD_DIR:-$root/build}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
all=no install=yes fuzz_seconds=5 stages=()
for argument in "$@"; do
    case $argument in
    --all) all=yes ;;
    --no-install) install=no ;;
    --fuzz-seconds=*)
        fuzz_seconds=${argument#*=}
        if [[ ! $fuzz_seconds =~ ^[1-9][0-9]{0,4}$ ]]; then
            echo "run.sh: $argument: must be 1..99999" >&2
            exit 64
        fi
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    gcc | asan | tsan | lint) stages+=("$argument") ;;
    *)
        echo "run.sh: unknown argument $argument; see --help" >&2
        exit 64
        ;;
    esac
done
[[ ${#stages[@]} -gt 0 ]] || stages=(lint gcc asan tsan)

# Settings of the user's own shell would change what is built and tested.
unset CFLAGS CPPFLAGS LDFLAGS CMAKE_BUILD_TYPE CMAKE_GENERATOR SNOWFLEET_BIN DESTDIR
while read -r name; do unset "$name"; done < <(compgen -e | grep '^SNOWFLEET_' | grep -vx SNOWFLEET_BUILD_DIR)
# Proxies are for the network; the tests talk to this machine.
export no_proxy="127.0.0.1,localhost,::1${no_proxy:+,$no_proxy}"
export NO_PROXY=$no_proxy

configure_and_build() { # NAME COMPILER OPTION...
    local name=$1 compiler=$2
    shift 2
    cmake -S "$root" -B "$build/$name" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
        -DSNOWFLEET_TEST_BUILD=ON -DSNOWFLEET_WERROR=ON "$@" >"$build/$name.configure.log" 2>&1 || {
        cat "$build/$name.configure.log"
        return 1
    }
    cmake --build "$build/$name" --parallel "$jobs"
}

run_tests() { # NAME CTEST-OPTION...
    local name=$1
    shift
    local long=(-LE '^long$')
    [[ $all == no ]] || long=()
    # Most tests wait most of the time: tests/CMakeLists.txt says how slots are counted.  No test found
    # is a failure: a filter or a list has gone wrong.
    local code=0
    "${steady[@]}" ctest --test-dir "$build/$name" --parallel "$((2 * jobs + 1))" --output-on-failure \
        --no-tests=error --output-junit "$build/$name.junit.xml" --test-output-size-failed 10000000 \
        "${long[@]}" "$@" || code=$?
    [[ $code -eq 0 ]] || once_more "$name"
}

once_more() { # NAME
    local name=$1 failed=()
    mapfile -t failed < <(/usr/bin/python3 "$root/tests/support/again.py" "$build/$name.junit.xml")
    [[ ${#failed[@]} -gt 0 ]] || return 1
    echo "run.sh: once more, alone: ${failed[*]}"
    "${steady[@]}" ctest --test-dir "$build/$name" --output-on-failure --no-tests=error --rerun-failed ||
        return 1
    printf '%s\n' "${failed[@]}" >"$build/$name.again"
}

stage_gcc() {
    configure_and_build gcc gcc
    run_tests gcc
}

stage_asan() {
    configure_and_build asan clang -DSNOWFLEET_SANITIZE=address,undefined -DSNOWFLEET_FUZZ=ON \
        -DSNOWFLEET_FUZZ_SECONDS="$fuzz_seconds"
    run_tests asan
}

stage_tsan() {
    configure_and_build tsan clang -DSNOWFLEET_SANITIZE=thread
    run_tests tsan
}

stage_lint() {
    local files=()
    # What git ignores, a build folder for one, is not ours.
    mapfile -d '' files < <(git -c safe.directory="$root" ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' |
        while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done)
    if [[ ${#files[@]} -eq 0 ]]; then
        echo "no C files found" >&2
        return 1
    fi
    echo "clang-format: ${#files[@]} files"
    local format_code=0
    clang-format --dry-run -Werror "${files[@]}" || format_code=1 # and go on to cppcheck
    local sources=()
    mapfile -d '' sources < <(printf '%s\0' "${files[@]}" | grep -z '\.c$')
    echo "cppcheck: ${#sources[@]} files"
    mkdir -p "$build/cppcheck"
    cppcheck --quiet --error-exitcode=1 --inline-suppr -j "$jobs" --cppcheck-build-dir="$build/cppcheck" \
        --enable=warning,performance,portability --std=c11 --library=posix --library=gnu \
        --suppress=missingIncludeSystem --suppress=missingInclude \
        -I "$root" -D_GNU_SOURCE -DSNOWFLEET_VERSION='"0"' -DSNOWFLEET_TEST_CLOCK=1 "${sources[@]}"
    return "$format_code"
}

# Sanitizers of clang 14 give up at random where the kernel scatters addresses widely (mmap_rnd_bits
# 32); without scattering they work.  A container may forbid that; then it has to go without.
steady=()
! setarch -R true 2>/dev/null || steady=(setarch -R)
jobs=$(nproc)
began=$SECONDS
mkdir -p "$build"
echo "run.sh: stages ${stages[*]}; builds in $build"
if [[ $install == yes ]]; then
    tags=(run build test)
    [[ $all == no ]] || tags+=(long)
    "$root/deploy/install-packages.sh" "${tags[@]}"
fi

results=() failed=no
for stage in "${stages[@]}"; do
    echo
    echo "=== $stage"
    stage_began=$SECONDS
    rm -f "$build/$stage.junit.xml" "$build/$stage.again" # what it will write
    # Not inside `if` or `||`, where bash would go on after a stage's failing command.
    set +e
    (
        set -e
        "stage_$stage"
    )
    code=$?
    set -e
    took=$((SECONDS - stage_began))
    if [[ $code -eq 0 ]]; then
        verdict=ok
    else
        verdict=FAILED
        failed=yes
    fi
    tests=
    if [[ -f $build/$stage.junit.xml ]]; then
        tests=", $(grep -c '<testcase ' "$build/$stage.junit.xml" || true) tests"
    fi
    [[ ! -f $build/$stage.again ]] || tests+=", passed only alone: $(paste -sd ' ' "$build/$stage.again")"
    echo "=== $stage $verdict in $took s"
    results+=("$stage $verdict ($took s$tests)")
done

joined=$(printf '%s, ' "${results[@]}")
joined=${joined%, }
if [[ $failed == yes ]]; then
    echo "run.sh: FAILED in $((SECONDS - began)) s: $joined"
    exit 1
fi
echo "run.sh: passed in $((SECONDS - began)) s: $joined"
