#!/usr/bin/env bash
# Checks one configuration of horizon.pml exhaustively.
#   check.sh good DEFINE...     passes if no state violates the assertion, with nothing left unsearched
#   check.sh mutant DEFINE...   passes if spin finds the assertion violated
# DEFINE is a macro of the model, as in T=3 MAXREQ=3 RESUME.  It takes some 300 MB of memory, the
# long configurations up to 2 GB.  A failure prints what spin said, and for a violation its trail.
set -euo pipefail

die() {
    echo "check.sh: $*" >&2
    exit 1
}

[[ $# -ge 1 && ($1 == good || $1 == mutant) ]] || die "usage: check.sh good|mutant DEFINE..."
kind=$1
shift
command -v spin >/dev/null || die "spin is not installed (Debian package spin)"
model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/horizon.pml

work=$(mktemp -d "${TMPDIR:-/tmp}/snowfleet-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$work"
cp "$model" horizon.pml

defines=()
for define in "$@"; do
    # A misspelt name would silently check the unchanged model.
    grep -Eq "^#(ifdef|ifndef) ${define%%=*}\$" horizon.pml || die "the model knows no macro ${define%%=*}"
    defines+=("-D$define")
done

spin -a "${defines[@]}" horizon.pml >spin.out 2>&1 || { cat spin.out >&2; die "spin rejects the model"; }
[[ -s pan.c ]] || { cat spin.out >&2; die "spin made no verifier"; }
# A mutant is caught within moments: compiling without optimisation is quicker than any search with it.
optimize=1
[[ $kind == good ]] || optimize=0
# SAFETY: assertions only.  COLLAPSE: states are stored compressed, without loss.
"${CC:-gcc}" -O"${PAN_OPTIMIZE:-$optimize}" -w -DSAFETY -DCOLLAPSE -o pan pan.c || die "the verifier does not compile"

# -E: blocked processes are no error here.  -m: search depth.  -w: 2^N slots of hash table.
code=0
./pan -E -m1000000 "-w${PAN_HASH_BITS:-22}" >pan.out 2>&1 || code=$?

fail() {
    cat pan.out >&2
    if [[ -s horizon.pml.trail ]]; then
        spin -t -p -g "${defines[@]}" horizon.pml 2>&1 | tail -n 120 >&2 || true
    fi
    die "$kind $*"
}

violated=no
grep -q 'assertion violated' pan.out && violated=yes

if [[ $kind == mutant ]]; then
    [[ $violated == yes ]] || fail "must violate the assertion and does not (exit code $code)"
else
    [[ $violated == no ]] || fail "must hold, but an ID is issued twice"
    [[ $code -eq 0 ]] || fail "the verifier ended with code $code"
    ! grep -Eq 'max search depth too small|Search not completed|out of memory|hash-compact|Bit statespace' pan.out ||
        fail "was not searched to the end"
    grep -Eq '^State-vector .* errors: 0$' pan.out || fail "no verdict"
fi
grep -E '^State-vector|states, stored$|assertion violated' pan.out
