#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vm/run.py - starts a virtual machine with Linux 6.1 and its soft-RoCE: see README.md

    run.py BUILD [PART...]       PART: one of guest.py's; default: all

QEMU without KVM boots the kernel of a Debian package, which lies in BUILD/vm (apt-get
downloads it, nothing is installed).  The guest's root is this host's file system, by 9p, read
only.  What the guest prints is printed; what it writes to /run/vm/out lands in BUILD/vm/out.
Exit: the guest's status, 77 where QEMU or the kernel is missing, 1 if the time is over.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import threading

LIMIT_S = 1800 # it takes a third of that, and longer beside other work
QEMU = "qemu-system-x86_64"
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "veth", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm"]


def skip(why):
    print("skip: " + why)
    sys.exit(77)


def download(folder):
    """Unpacks the kernel's package.  Return: its root, or None."""
    out = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-6\.\S+-amd64)", out.stdout)
    if not found:
        return None
    os.makedirs(folder, exist_ok=True)
    print("downloading", found.group(1), flush=True)
    subprocess.run(["apt-get", "-q", "download", found.group(1)], cwd=folder, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    packages = glob.glob(os.path.join(folder, "*.deb"))
    if not packages:
        return None
    root = os.path.join(folder, "kernel")
    subprocess.run(["dpkg-deb", "-x", packages[0], root + ".new"], check=True)
    os.rename(root + ".new", root)
    os.remove(packages[0])
    return root


def kernel(folder):
    """Return: the path of a kernel with soft-RoCE, and of its modules."""
    for root in [os.path.join(folder, "kernel"), "/"]:
        for rxe in glob.glob(root + "/lib/modules/6.1.*/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"):
            modules = rxe.split("/kernel/drivers/infiniband")[0]
            image = os.path.join(root, "boot", "vmlinuz-" + os.path.basename(modules))
            if os.path.exists(image):
                return image, modules
    return None


def in_order(modules, names):
    """Return: the paths of modules and of those that they depend on, these first."""
    paths = {os.path.basename(p)[:-3].replace("-", "_"): p
             for p in glob.glob(modules + "/kernel/**/*.ko", recursive=True)}
    order = []

    def add(name):
        path = paths.get(name.replace("-", "_"))
        if not path or path in order:
            return
        with open(path, "rb") as f:
            for depends in re.findall(rb"\0depends=([^\0]*)", f.read()):
                for other in filter(None, depends.decode().split(",")):
                    add(other)
        order.append(path)

    for name in names:
        add(name)
    return order


def initramfs(path, init, modules):
    """Writes an archive of the kind that the kernel unpacks (cpio, newc)."""
    listed = "".join(os.path.basename(m) + "\n" for m in modules)
    files = [("modules", 0o40755, b""), ("dev", 0o40755, b""), ("modules/list", 0o100644, listed.encode())]
    for source, name in [(init, "init")] + [(m, "modules/" + os.path.basename(m)) for m in modules]:
        with open(source, "rb") as f:
            files.append((name, 0o100755, f.read()))
    with open(path, "wb") as out:
        for number, (name, mode, data) in enumerate(files + [("TRAILER!!!", 0, b"")]):
            fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
            head = b"070701" + b"".join(b"%08X" % v for v in fields) + name.encode() + b"\0"
            out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))


def boot(image, archive, out, tree, build, parts):
    """Return: the guest's status."""
    share = "local,security_model=none,multidevs=remap"
    words = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr OSF_TREE=%s OSF_BUILD=%s OSF_PARTS=%s" % (
        tree, build, ",".join(parts))
    command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1536", "-nodefaults", "-nographic",
               "-no-reboot", "-serial", "stdio", "-kernel", image, "-initrd", archive, "-append", words,
               "-virtfs", share + ",readonly=on,path=/,mount_tag=root",
               "-virtfs", share + ",path=%s,mount_tag=out" % out]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          errors="replace") as machine:
        over = threading.Timer(LIMIT_S, machine.kill)
        over.start()
        for line in machine.stdout:
            print(line.rstrip(), flush=True)
        machine.wait()
        if not over.is_alive():
            print("FAIL no end in %d s" % LIMIT_S)
        over.cancel()
    try:
        with open(os.path.join(out, "status")) as f:
            return int(f.read())
    except (OSError, ValueError):
        return 1


def main():
    build, parts = os.path.realpath(sys.argv[1]), sys.argv[2:]
    tree = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
    folder = os.path.join(build, "vm")
    out = os.path.join(folder, "out")
    if not shutil.which(QEMU):
        skip("no %s (qemu-system-x86)" % QEMU)
    found = kernel(folder) or (download(folder) and kernel(folder))
    if not found:
        skip("no Linux 6.1 with soft-RoCE (Debian's linux-image-amd64)")
    image, modules = found
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    archive = os.path.join(folder, "initramfs")
    initramfs(archive, os.path.join(build, "tests/vm_init"), in_order(modules, MODULES))
    return boot(image, archive, out, tree, build, parts)


if __name__ == "__main__":
    sys.exit(main())
