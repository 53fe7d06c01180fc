#!/usr/bin/env bash
# Runs every test program of the bundle, then again under compute-sanitizer, and prints a table at the end.
#
#   ./run-gpu-tests.sh [--no-sanitizer] [--only WORD] [--allow-skips]
#
#   --no-sanitizer  run each program once, plainly
#   --only WORD     only programs whose name contains WORD
#   --allow-skips   tests that found no GPU or no library do not count as failures
#
# Everything that is printed goes to gpu-tests.log, the table to gpu-tests-summary.txt, both in $OUT or else ./logs.
# "none" in the table: the program calls no CUDA, so that the sanitizer has nothing to look at.
# A program that runs longer than $TEST_TIMEOUT_S seconds (300) has failed. The status is 0 only if nothing failed.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
only=
use_sanitizer=yes
allow_skips=no
while [ $# -gt 0 ]; do
  case $1 in
    --no-sanitizer) use_sanitizer=no; shift ;;
    --allow-skips) allow_skips=yes; shift ;;
    --only) only=${2:?--only needs a word}; shift 2 ;;
    *) echo "unknown argument '$1'; the first lines of this script say which there are" >&2; exit 2 ;;
  esac
done

logs=${OUT:-$here/logs}
mkdir -p "$logs" || exit 1
log=$logs/gpu-tests.log
table=$logs/gpu-tests-summary.txt
: >"$log"
: >"$table"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PELTON_CUDA_LIBRARY=${PELTON_CUDA_LIBRARY:-$here/libpelton_cuda.so}
export RUST_BACKTRACE=1
failed=0

# Sums the numbers before WORD in the result lines of a log: "test result: ok. 12 passed; 0 failed; ...".
count() { # FILE WORD
  sed -n "s/^test result: .*[^0-9]\([0-9][0-9]*\) $2.*/\1/p" "$1" | awk '{ sum += $1 } END { print sum + 0 }'
}

# Runs one program one way and adds a line to the table.
run() { # WAY PROGRAM COMMAND...
  local way=$1 name mark=ok status started seconds passed skipped
  name=$(basename "$2")
  shift 2
  started=$(date +%s.%N)
  timeout --kill-after=10 "${TEST_TIMEOUT_S:-300}" "$@" >"$work/output" 2>&1
  status=$?
  seconds=$(awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
  passed=$(count "$work/output" passed)
  skipped=$(grep -c 'SKIPPED' "$work/output")
  { echo "===== $name, $way: $*"; cat "$work/output"; echo "===== status $status after $seconds s"; echo; } >>"$log"
  if grep -q 'terminated before first instrumented API call' "$work/output" && [ "$(count "$work/output" failed)" = 0 ]; then
    mark=none
  elif [ "$status" != 0 ]; then
    mark=FAIL
  elif [ "$skipped" != 0 ] && [ "$allow_skips" = no ]; then
    mark=SKIP
  fi
  case $mark in ok | none) ;; *) failed=$((failed + 1)) ;; esac
  printf '%-5s %-28s %-10s %5s passed %3s failed %3s skipped  status %-3s %7s s\n' \
    "$mark" "$name" "$way" "$passed" "$(count "$work/output" failed)" "$skipped" "$status" "$seconds" \
    | tee -a "$table"
}

sanitizer=
if [ "$use_sanitizer" = yes ]; then
  for candidate in "$(command -v compute-sanitizer || true)" \
    ${CUDA_HOME:+"$CUDA_HOME/bin/compute-sanitizer"} /usr/local/cuda/bin/compute-sanitizer; do
    if [ -z "$sanitizer" ] && [ -x "$candidate" ]; then sanitizer=$candidate; fi
  done
  [ -n "$sanitizer" ] || echo "compute-sanitizer is not here: each program runs once, plainly" | tee -a "$log"
fi

{ uname -a; nvidia-smi 2>&1; } >>"$log"
programs=()
for program in "$here"/tests/*; do
  case $(basename "$program") in *"$only"*) [ -x "$program" ] && programs+=("$program") ;; esac
done
[ ${#programs[@]} -gt 0 ] || { echo "no test program matches '$only'" >&2; exit 2; }

for program in "${programs[@]}"; do
  run plain "$program" "$program" --nocapture --test-threads=4
done
if [ -n "$sanitizer" ]; then
  for program in "${programs[@]}"; do
    tools=(memcheck)
    # Only programs that launch kernels have races, barriers and memory of kernels to look at.
    case $(basename "$program") in
      kernels-* | pipeline-program | exec-run) tools+=(racecheck initcheck synccheck) ;;
    esac
    for tool in "${tools[@]}"; do
      # Programs may start compilers, which call no CUDA and are not what is tested.
      options=(--tool "$tool" --error-exitcode 9 --target-processes application-only)
      # Refusals by the driver are results, which the tests check: some ask for them, and cuFile makes some itself.
      [ "$tool" = memcheck ] && options+=(--report-api-errors no)
      run "$tool" "$program" "$sanitizer" "${options[@]}" "$program" --nocapture --test-threads=4
    done
  done
fi

echo
echo "== summary"
cat "$table"
echo "$(wc -l <"$table") runs, $failed not ok; the full log is $log" | tee -a "$table"
[ "$failed" = 0 ]
