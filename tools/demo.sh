#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tools/demo.sh - redis on the kernel and under osf, side by side
#
#     packages -> libosf.so, osf -> redis-server, redis-benchmark GET  (kernel)
#                               the same under `osf run`           (osf)
#                               ratio, and what `osf stat` says
#
# Listens on a free port of 127.0.0.1 only, ends only what it started, and takes
# about a minute.  Nothing is left behind but $BUILD.
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD=${BUILD:-build}
TMP=$(mktemp -d)
server=''
client=''
port=''
kernel_one='' kernel_many='' osf_one='' osf_many=''

finish() {
	local pid
	for pid in $client $server; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$TMP"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '%s\n' "$*"; }

# --- packages ---

has_programs() {
	local name
	for name in meson ninja cc pkg-config python3 redis-server \
		redis-benchmark redis-cli; do
		command -v "$name" >/dev/null || return 1
	done
	pkg-config --exists libcjson libmnl
}

packages_install() {
	has_programs || BUILD=$BUILD tools/packages.sh build redis-server redis-tools ||
		exit 1
}

# --- redis ---

free_port() {
	python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# server_start [osf run ...]
server_start() {
	port=$(free_port)
	"$@" redis-server --bind 127.0.0.1 --port "$port" --save '' \
		--appendonly no --dir "$TMP" >"$TMP/server" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		redis-cli -p "$port" ping >/dev/null 2>&1 && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	tail -5 "$TMP/server"
	say "demo: redis-server did not start"
	exit 1
}

server_stop() {
	kill "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	server=
}

# bench CLIENTS REQUESTS [osf run ...]: GETs a second
bench() {
	local clients=$1 requests=$2
	shift 2
	timeout 60 "$@" redis-benchmark -p "$port" -t get -c "$clients" \
		-n "$requests" --csv 2>/dev/null |
		awk -F'"' '$2 == "GET" { print $4 }'
}

# figure CLIENTS [osf run ...]: the same, of as many as take about two seconds
figure() {
	local clients=$1 rate
	shift
	rate=$(bench "$clients" 4000 "$@")
	bench "$clients" "$(awk -v r="$rate" 'BEGIN { printf "%d", 2 * r + 4000 }')" "$@"
}

# measure NAME [osf run ...]: leaves one and many in variables of that name
measure() {
	local name=$1
	shift
	server_start "$@"
	bench 50 20000 "$@" >/dev/null || true
	eval "${name}_one=\$(figure 1 \"\$@\")"
	eval "${name}_many=\$(figure 50 \"\$@\")"
}

# While a load runs: what osf knows of the server's connections.
show_stat() {
	timeout 15 "$BUILD/osf" run -- redis-benchmark -p "$port" -t get -c 8 \
		-n 100000000 >/dev/null 2>&1 &
	client=$!
	sleep 1
	say "osf stat, while 8 clients load the server:"
	"$BUILD/osf" stat "$server" | awk -F'\t' '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		{ printf "  %-7s %-18s %14s %14s  %s\n", $at["proto"],
			$at["peer"], $at["rx_bytes_shm"],
			$at["rx_bytes_inet"], $at["reason"] }'
	kill "$client" 2>/dev/null || true
	wait "$client" 2>/dev/null || true
	client=
}

row() {
	awk -v what="$1" -v k="$2" -v o="$3" 'BEGIN {
		if (k <= 0 || o <= 0) { print what ": no figure"; exit 1 }
		printf "%-24s %12.0f %12.0f %9.1fx\n", what, k, o, o / k }'
}

main() {
	local osf_run=("$BUILD/osf" run --)
	packages_install
	say "building in $BUILD"
	make -s build BUILD="$BUILD" PRODUCT="src/libosf.so tools/osf/osf" >"$TMP/build" 2>&1 || {
		tail -20 "$TMP/build"
		exit 1
	}

	say "redis-benchmark GET, about 2 seconds each; please wait"
	measure kernel
	server_stop
	measure osf "${osf_run[@]}"
	say ""
	printf '%-24s %12s %12s %10s\n' "GET a second" kernel osf ratio
	row "1 client" "$kernel_one" "$osf_one"
	row "50 clients" "$kernel_many" "$osf_many"
	say ""
	show_stat
	server_stop
}

main
