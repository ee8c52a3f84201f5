/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/init.c - the first program of the virtual machine, alone in its initramfs
 *
 * Loads the kernel's modules in the order of /modules/list, makes the host's file system,
 * which it finds by 9p and may only read, the root, and becomes tests/vm/guest.sh there.
 * Linked statically.  OSF_TREE, from the kernel's command line, is the source tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHARE "trans=virtio,version=9p2000.L,cache=loose,msize=262144"

/* The kernel stops when the first program ends, and QEMU with it (panic=-1, -no-reboot). */
static void die(const char *what)
{
	printf("init: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void load(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/modules/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		printf("init: %s: %s\n", name, strerror(errno));
	close(fd);
}

static void load_all(void)
{
	char name[128];
	FILE *f = fopen("/modules/list", "re");

	if (!f)
		die("/modules/list");
	while (fscanf(f, "%127s", name) == 1)
		load(name);
	fclose(f);
}

static void mount_or_die(const char *type, const char *source, const char *to,
			 unsigned long flags, const char *options)
{
	if (mount(source, to, type, flags, options))
		die(to);
}

int main(void)
{
	const char *tree = getenv("OSF_TREE");
	char script[4096];

	setvbuf(stdout, NULL, _IONBF, 0);
	load_all();
	mkdir("/host", 0755);
	mount_or_die("9p", "root", "/host", MS_RDONLY, SHARE);
	mount_or_die("devtmpfs", "dev", "/host/dev", 0, "");
	mount_or_die("proc", "proc", "/host/proc", 0, "");
	mount_or_die("sysfs", "sys", "/host/sys", 0, "");
	if (chdir("/host") || chroot("/host"))
		die("chroot");
	snprintf(script, sizeof(script), "%s/tests/vm/guest.sh", tree);
	execl("/bin/sh", "sh", script, (char *)NULL);
	die(script);
}
