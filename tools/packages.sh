#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tools/packages.sh GROUP... - installs the Debian packages that are missing
#
#     packages.txt -> those of the groups -> without those that are here -> apt-get
#
# A GROUP is build, tests, suites or vm (the headings of packages.txt), or the name of a
# package.  As root, or by sudo; where neither is possible, prints the line that
# somebody has to run.  A build folder BUILD that is there already looks again for
# what it did not find.  Exit: 0 when nothing is missing any more, 1 otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

policy=/usr/sbin/policy-rc.d

say() { printf '%s\n' "$*" >&2; }

# packages GROUP...: their names
packages() {
	local group
	for group in "$@"; do
		case $group in
		build | tests | suites | vm)
			sed -n -e "/^# $group:/,/^\$/p" packages.txt |
				sed -e 's/#.*//'
			;;
		*) echo "$group" ;;
		esac
	done
}

# missing NAME...: those that dpkg does not call installed
missing() {
	local name have
	have=$(dpkg-query -W -f '${Package} ${Status}\n' 2>/dev/null |
		sed -n 's/ install ok installed$//p')
	for name in "$@"; do
		grep -qxF "$name" <<<"$have" || echo "$name"
	done
}

apt_line() {
	say "please run this once:"
	say "  ${1:+$1 }apt-get update && ${1:+$1 }apt-get install -y" \
		"--no-install-recommends $2"
}

# Some packages bring servers; while the policy file says 101, none of them is
# started.  A machine that has such a file keeps its own.  Old package lists are the
# usual cause of a failure: fetch them each time.  apt-get installs all or nothing: where
# it installs nothing, each package is tried alone, so that one that this Debian does not
# have, or that is in another's way, does not keep the others out.
install() {
	local sudo=$1 names=$2 hold=: log
	log=$(mktemp)
	[ -e "$policy" ] || hold="printf '#!/bin/sh\\nexit 101\\n' >$policy;
		chmod 755 $policy; trap 'rm -f $policy' EXIT"
	say "installing: $names"
	if ! $sudo env DEBIAN_FRONTEND=noninteractive sh -c "$hold
		get='apt-get install -q -y --no-install-recommends'
		apt-get update -q
		\$get $names && exit
		for name in $names; do \$get \$name || failed=1; done
		exit \${failed:-0}" >"$log" 2>&1; then
		grep -a '^E:' "$log" | sort -u | tail -5 >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

main() {
	local names sudo=''
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		say "no Debian here; these are its names of what is needed:"
		say "  $(packages "$@" | xargs)"
		return 1
	fi
	# shellcheck disable=SC2046
	names=$(missing $(packages "$@") | xargs)
	[ "$names" ] || return 0
	[ "$(id -u)" = 0 ] || sudo=sudo
	if [ "$sudo" ] && { ! command -v sudo >/dev/null ||
		{ ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; }; then
		say "missing: $names"
		apt_line sudo "$names"
		return 1
	fi
	if install "$sudo" "$names"; then
		[ ! -e "${BUILD:-build}/build.ninja" ] ||
			meson setup --reconfigure "${BUILD:-build}" >/dev/null
		return 0
	fi
	say "that failed"
	apt_line "$sudo" "$names"
	return 1
}

main "$@"
