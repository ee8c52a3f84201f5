#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tools/demo_wire.sh - osf's own TCP between two hosts, which are network namespaces here
#
#     make build -> two namespaces, veth -> redis on the kernel
#                -> osf port add at both ends -> redis with osf at one end, at both
#                -> osf stat -> a connection that goes to the kernel and back while it works
#
# Needs root.  Takes less than a minute after the build, uses addresses of its own
# namespaces only, ends only what it started, and leaves nothing behind but $BUILD.
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD=${BUILD:-build}
A=osf-demo-$$-a
B=osf-demo-$$-b
HOST=10.97.0.1
PORT=6379
ECHO_PORT=6380
LIMIT_S=6 # of each figure
TMP=$(mktemp -d)
server='' client=''

say() { printf '%s\n' "$*"; }

stop() {
	local pid
	for pid in "$@"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

finish() {
	stop $client $server
	ip netns exec "$A" "$BUILD/osf" port del va 2>/dev/null || true
	ip netns exec "$B" "$BUILD/osf" port del vb 2>/dev/null || true
	ip netns del "$A" 2>/dev/null || true
	ip netns del "$B" 2>/dev/null || true
	rm -rf "$TMP"
}

# --- two hosts ---

hosts_open() {
	ip netns add "$A"
	ip netns add "$B"
	ip link add va netns "$A" type veth peer name vb netns "$B"
	ip -n "$A" addr add "$HOST/24" dev va
	ip -n "$B" addr add 10.97.0.2/24 dev vb
	ip -n "$A" link set lo up
	ip -n "$A" link set va up
	ip -n "$B" link set lo up
	ip -n "$B" link set vb up
}

# on A|B kernel|osf COMMAND...: in the background, as `$!'
on() {
	local place=$1 how=$2
	shift 2
	if [ "$how" = osf ]; then
		OSF_TCP=1 exec ip netns exec "$place" "$BUILD/osf" run -- "$@"
	fi
	exec ip netns exec "$place" "$@"
}

# On a busy machine the figures, which are taken one after the other, compare little.
tell_load() {
	local load
	load=$(cut -d ' ' -f 1 /proc/loadavg)
	awk -v busy="$load" -v n="$(nproc)" 'BEGIN { exit !(busy > n) }' || return 0
	say "(other programs run here, too: a load of $load on $(nproc) processors, which changes the figures)"
}

# --- redis ---

server_start() {
	on "$A" "$1" redis-server --bind "$HOST" --port "$PORT" --save '' \
		--appendonly no --protected-mode no --dir "$TMP" >"$TMP/server" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		ip netns exec "$B" redis-cli -h "$HOST" -p "$PORT" ping \
			>/dev/null 2>&1 && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	tail -5 "$TMP/server"
	say "demo-wire: redis-server did not start"
	exit 1
}

# bench HOW CLIENTS REQUESTS: GETs a second
bench() {
	# Where the time does not suffice there is no figure.
	{ (on "$B" "$1" timeout "$LIMIT_S" redis-benchmark -h "$HOST" -p "$PORT" \
		-t get -c "$2" -n "$3" --csv) 2>/dev/null || true; } |
		awk -F'"' '$2 == "GET" { print $4 }'
}

# figure HOW CLIENTS: the same, of as many as take about a second and a half; the
# first 5000 are enough for osf to decide where connections go
figure() {
	local rate
	rate=$(bench "$1" "$2" 5000)
	bench "$1" "$2" "$(awk -v r="${rate:-100}" 'BEGIN { printf "%d", 1.5 * r + 100 }')"
}

# measure NAME SERVER CLIENT: leaves NAME_one and NAME_many
measure() {
	server_start "$2"
	eval "$1_one=\$(figure $3 1)"
	eval "$1_many=\$(figure $3 50)"
	[ "${4:-}" = keep ] || stop "$server"
}

row() {
	awk -v what="$1" -v k="${2:-0}" -v o="${3:-0}" -v b="${4:-0}" 'BEGIN {
		printf "%-14s %10s %14s %15s %9s %9s\n", what, figure(k), figure(o),
			figure(b), ratio(o, k), ratio(b, k) }
		function figure(n) { return n > 0 ? sprintf("%d", n) : "-" }
		function ratio(n, k) { return n > 0 && k > 0 ? sprintf("%.2fx", n / k) : "-" }'
}

# --- what osf says, while a load runs ---

show_stat() {
	(on "$B" osf timeout "$LIMIT_S" redis-benchmark -h "$HOST" -p "$PORT" -t get \
		-c 4 -n 100000000) >/dev/null 2>&1 &
	client=$!
	sleep 1
	say "osf stat, while 4 clients load the server:"
	ip netns exec "$A" "$BUILD/osf" stat "$server" | awk -F'\t' '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		{ printf "  %-8s %-18s %10s %10s  %s\n", $at["proto"], $at["peer"],
			$at["rx_ops"], $at["tx_ops"], $at["reason"] }'
	say "osf port list:"
	ip netns exec "$A" "$BUILD/osf" port list | sed 's/^/  /'
	stop "$client"
	client=
}

# --- freeze and thaw ---

# Echoes one connection.
ECHO='
import socket, sys
c = socket.create_server((sys.argv[1], int(sys.argv[2]))).accept()[0]
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    m = c.recv(65536)
    if not m:
        break
    c.sendall(m)
'
# Asks, compares each byte, and now and then sets an option that only the kernel has: the
# connection is thawed in that call, and frozen again some turns later.
ASK='
import os, socket, sys, time
until = time.monotonic() + 10
while True:
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
        break
    except ConnectionRefusedError:
        if time.monotonic() > until:
            raise
        time.sleep(0.05)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
until = time.monotonic() + 3
n = backs = 0
while time.monotonic() < until:
    m = os.urandom(1000)
    s.sendall(m)
    got = b""
    while len(got) < len(m):
        got += s.recv(len(m) - len(got))
    if got != m:
        sys.exit("other bytes than were sent")
    n += 1
    if n % 50 == 0:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
        backs += 1
print("  %d turns of 1000 bytes in 3 s, each byte compared; sent back to the kernel %d times"
      % (n, backs))
'

freeze_and_thaw() {
	local python
	python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
	say "a connection that is thawed and frozen again every 50 turns:"
	(on "$A" kernel "$python" -c "$ECHO" "$HOST" "$ECHO_PORT") &
	server=$!
	OSF_RULES=$'use tcp tcp_client *:*' timeout 20 ip netns exec "$B" \
		"$BUILD/osf" run --stats -- "$python" -c "$ASK" "$HOST" "$ECHO_PORT" \
		2>"$TMP/stats" || {
		cat "$TMP/stats"
		exit 1
	}
	sed -n 's/.* \([0-9.kM]*\) upgraded, \([0-9.kM]*\) fell back.*/  moved to osf \1 times, and back \2 times/p' \
		"$TMP/stats"
	wait "$server" || true
	server=
}

main() {
	if [ "$(id -u)" != 0 ]; then
		say "demo-wire: needs root, to make network namespaces and ports"
		exit 77
	fi
	for name in ip redis-server redis-benchmark redis-cli python3; do
		command -v "$name" >/dev/null || {
			say "demo-wire: no $name; tools/packages.sh build iproute2 redis-server redis-tools"
			exit 77
		}
	done
	say "building in $BUILD"
	make -s build BUILD="$BUILD" >"$TMP/build" 2>&1 || {
		tail -20 "$TMP/build"
		exit 1
	}
	BUILD=$(realpath "$BUILD")

	tell_load
	say "two network namespaces, a veth pair; redis-benchmark GET; please wait"
	hosts_open
	measure kernel kernel kernel
	ip netns exec "$A" "$BUILD/osf" port add va
	ip netns exec "$B" "$BUILD/osf" port add vb
	measure server osf kernel
	measure both osf osf keep
	say ""
	printf '%-14s %10s %14s %15s %9s %9s\n' "GET a second" kernel "osf, one end" \
		"osf, both ends" ratio ratio
	row "1 client" "$kernel_one" "$server_one" "$both_one"
	row "50 clients" "$kernel_many" "$server_many" "$both_many"
	say ""
	show_stat
	stop "$server"
	server=
	say ""
	freeze_and_thaw
}

trap finish EXIT
trap 'exit 130' INT TERM
main
