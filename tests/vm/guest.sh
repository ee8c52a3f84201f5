#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/vm/guest.sh - what the virtual machine does from its start to its end
#
# The root is the host's, which can only be read; what programs write goes to memory
# (/tmp, /run, /dev/shm).  The results go to the host by /run/vm/out.  Variables come from the
# kernel's command line: OSF_TREE, OSF_BUILD (a folder in it), OSF_PARTS.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
off() { sync; echo o >/proc/sysrq-trigger; sleep 60; }

mount -t tmpfs run /run && mkdir -p /run/vm/tree /run/vm/out /run/netns /run/lock
mount --bind "$OSF_TREE" /run/vm/tree    # the next mount may hide it
mount -t tmpfs tmp /tmp && chmod 1777 /tmp
mkdir -p "$OSF_TREE" 2>/dev/null
mount --bind /run/vm/tree "$OSF_TREE" || off
mount -t tmpfs var /var/tmp
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm && chmod 1777 /dev/shm
mount -t devpts pts /dev/pts
mount -t 9p -o trans=virtio,version=9p2000.L out /run/vm/out || off
cd "$OSF_TREE" || off
ip link set lo up
ulimit -l unlimited
# shellcheck disable=SC2086
python3 tests/vm/guest.py $(echo "$OSF_PARTS" | tr , ' ')
echo $? >/run/vm/out/status
off
