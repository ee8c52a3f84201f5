/* SPDX-License-Identifier: MIT */
/*
 * tests/app/odd_fds.h - descriptors of all kinds that a process can pass to another one
 *
 *     odd_fds_init()  ->  odd_fd(kind), as often as wanted
 *
 * A call on such a descriptor, or its close(), may wait for as long as its maker likes: on a
 * socket that lingers, or for a file system that does not answer.
 */
#ifndef TESTS_ODD_FDS_H
#define TESTS_ODD_FDS_H

extern const unsigned n_odd_fds; /* kinds */
/* Makes the descriptors that only root can make: call it before the process stops to be root.
 * A child of this process serves a file system until this process ends. */
void odd_fds_init(void);
/* A new descriptor of the kind, or -1: this kernel, or this user, has none. */
int odd_fd(unsigned kind);
const char *odd_fd_name(unsigned kind);

#endif
