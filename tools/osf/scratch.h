/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/scratch.h - a private directory for a short while
 */
#pragma once

struct scratch {
	char path[256]; /* "" is none */
	int lock_fd;    /* locked as long as the directory is in use */
};

/* A fresh directory of mode 0700: 0 or a negative errno. */
int scratch_open(struct scratch *d);

/* Removes it with all that is in it; takes one that is closed or { 0 } too. */
void scratch_close(struct scratch *d);

/* Removes the directories in /dev/shm that this user's killed runs have left. */
void scratch_sweep(void);
