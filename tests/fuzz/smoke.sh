#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/fuzz/smoke.sh FUZZER CORPUS - the corpus, then a few seconds of new inputs
#
# OSF_TEST_FAST=1 (make check FAST=1): the corpus, and one second.  make fuzz looks for
# longer.
#
# New inputs go to a folder that is removed again; an input that fails is printed
# in base64, to be put into CORPUS once it is understood.
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
seconds=2
[ -z "$OSF_TEST_FAST" ] || seconds=1

"$1" -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1 \
	-artifact_prefix="$tmp/failed-" "$tmp" "$2" 2>&1 | tail -40 >"$tmp/out"
grep -v '^INFO\|^#' "$tmp/out"
for input in "$tmp"/failed-*; do
	[ -e "$input" ] || continue
	echo "input:"
	base64 "$input"
	exit 1
done
grep -q '^stat::number_of_executed_units' "$tmp/out"
