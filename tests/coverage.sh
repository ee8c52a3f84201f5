#!/bin/sh
# SPDX-License-Identifier: MIT
#
# [SEEDS=N] tests/coverage.sh [BUILD] - how much of src/tcp the tests reach
#
# Builds these into BUILD (build-coverage) with gcov's counters, runs them, and prints
# lines and branches of each file, assertions left out.  Exit 1: below a bar.
# The changes of state that were seen: build/tests/sim --transitions 1 2000.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-coverage}
SEEDS=${SEEDS:-300}
tests="congestion drop_masks goodput idle_conns ranges recovery scenarios_peer scenarios_wire
	syn_flood tcp_buffers tcp_cookies tcp_icmp tcp_info tcp_lend tcp_options tcp_path_mtu
	tcp_urgent"

command -v gcovr >/dev/null || { echo "skip: gcovr is not there"; exit 77; }
[ -e "$build/build.ninja" ] ||
	meson setup "$build" -Dbuildtype=debug -Db_coverage=true >/dev/null
# shellcheck disable=SC2086
ninja -C "$build" $(printf 'tests/%s ' $tests sim script) >/dev/null
find "$build" -name '*.gcda' -delete
for name in $tests; do
	"$build/tests/$name" >"$build/coverage.log" 2>&1 || echo "failed: $name"
done
"$build/tests/sim" --jobs 2 1 "$SEEDS" >"$build/coverage.log" 2>&1 || echo "failed: sim"
"$build/tests/script" --engine --not-yet tests/script/not_yet.txt tests/script \
	>"$build/coverage.log" 2>&1 || echo "failed: script"
python3 tests/script/generated.py "$build/tests/script" --engine >"$build/coverage.log" 2>&1 ||
	echo "failed: generated"
gcovr --root . --object-directory "$build" --filter src/tcp/ \
	--exclude-lines-by-pattern '.*\bd?assert\(.*' \
	--exclude-branches-by-pattern '.*\bd?assert\(.*' \
	--txt "$build/lines.txt" --json-summary "$build/coverage.json" \
	--fail-under-line 95 --fail-under-branch 85 --print-summary "$build/src/libengine.a.p" || status=1
cat "$build/lines.txt"
exit "${status:-0}"
