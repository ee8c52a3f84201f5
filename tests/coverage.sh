#!/bin/sh
# SPDX-License-Identifier: MIT
#
# [SEEDS=N] tests/coverage.sh [BUILD] - how much of src/tcp the tests reach
#
# Builds these into BUILD (build-coverage) with gcov's counters, runs them, and prints
# lines, branches and changes of state.  Assertions are left out, and so are the branches by
# which a call would throw, which nothing in C does: -fexceptions is for threads that are
# cancelled, and the compiler then counts two more for each call.  Exit 1: a test has failed, or
# a bar is not reached.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-coverage}
SEEDS=${SEEDS:-300}
tests="congestion drop_masks goodput idle_conns recovery scenarios_peer scenarios_wire
	syn_flood $(cd tests/unit && basename -s .c tcp_*.c)"

command -v gcovr >/dev/null || { echo "skip: gcovr is not there"; exit 77; }
[ -e "$build/build.ninja" ] ||
	meson setup "$build" -Dbuildtype=debug -Db_coverage=true >/dev/null
grep -q -e -fno-exceptions "$build/build.ninja" ||
	meson configure "$build" -Dc_args=-fno-exceptions
status=0

# run WHAT COMMAND...
run() {
	what=$1
	shift
	"$@" >"$build/coverage.log" 2>&1 && return
	echo "failed: $what"
	tail -n 20 "$build/coverage.log"
	status=1
}

# shellcheck disable=SC2086
ninja -C "$build" $(printf 'tests/%s ' $tests sim script) >/dev/null
find "$build" -name '*.gcda' -delete
for name in $tests; do
	run "$name" "$build/tests/$name"
done
run sim "$build/tests/sim" --jobs 2 --transitions 1 "$SEEDS"
grep 'changes of state' "$build/coverage.log" || true
run script "$build/tests/script" --engine --not-yet tests/script/not_yet.txt tests/script
run generated python3 tests/script/generated.py "$build/tests/script" --engine
gcovr --root . --object-directory "$build" --filter src/tcp/ \
	--exclude-lines-by-pattern '.*\bd?assert\(.*' \
	--exclude-branches-by-pattern '.*\bd?assert\(.*' \
	--txt "$build/lines.txt" --json-summary "$build/coverage.json" \
	--fail-under-line 98 --fail-under-branch 95 --print-summary "$build/src/libengine.a.p" || status=1
cat "$build/lines.txt"
exit $status
