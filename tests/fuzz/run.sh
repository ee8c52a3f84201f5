#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/fuzz/run.sh BUILD ENGINE SECONDS NAME... - fuzzers for longer, one after the other
#
# ENGINE is libfuzzer or afl; each NAME runs for SECONDS, from its corpus on.  What is
# new is kept in BUILD/fuzz/NAME, and so is what failed: its names are printed.
build=$1 engine=$2 seconds=$3
shift 3
here=$(dirname "$0")
status=0

fuzz_libfuzzer() {
	"$build/tests/fuzz_$1" -max_total_time="$seconds" -rss_limit_mb=4096 \
		-print_final_stats=1 -artifact_prefix="$kept/failed-" \
		"$kept" "$here/corpus/$1" >"$kept.log" 2>&1
	grep -E '^stat::(number_of_executed|average_exec)|ERROR' "$kept.log"
}

# AFL wants a corpus that is not empty, and says what it found in files.
fuzz_afl() {
	ninja -C "$build" "tests/afl_$1" >"$kept.log" 2>&1 || return 1
	find "$kept" -name 'failed-afl-*' -delete
	rm -rf "$kept.in"
	mkdir "$kept.in"
	cp "$here/corpus/$1"/* "$kept.in" 2>/dev/null || echo seed >"$kept.in/seed"
	AFL_SKIP_CPUFREQ=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1 \
		AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 \
		afl-fuzz -V "$seconds" -m none -i "$kept.in" -o "$kept.afl" \
		-- "$build/tests/afl_$1" >>"$kept.log" 2>&1
	grep -E 'execs_done|execs_per_sec|edges_found|saved_crashes|saved_hangs' \
		"$kept.afl/default/fuzzer_stats" || return 1
	for input in "$kept.afl/default/crashes"/id* "$kept.afl/default/hangs"/id*; do
		[ -e "$input" ] &&
			cp "$input" "$kept/failed-afl-$(basename "$input" | cut -d, -f1)"
	done
	return 0
}

for name in "$@"; do
	kept=$build/fuzz/$name
	[ -x "$build/tests/fuzz_$name" ] || {
		echo "fuzz_$name was not built"
		continue
	}
	mkdir -p "$kept"
	echo "fuzz_$name, $engine, $seconds s:"
	"fuzz_$engine" "$name" || status=1
	for input in "$kept"/failed-*; do
		[ -e "$input" ] && echo "failed: $input" && status=1
	done
done
exit $status
