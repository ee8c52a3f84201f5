/* SPDX-License-Identifier: MIT */
/*
 * api/vma/epset.h - which descriptor an event of an epoll set is about
 *
 * An event has the program's data and not its descriptor, so what the program
 * says in epoll_ctl() is noted from the moment on when it asks for this API.
 * What it said before is read from /proc/self/fdinfo.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define EPSET_SAME_MAX 8 /* descriptors with the same data */

struct epset_found {
	int fd;
	uint32_t events; /* that the program wants */
};

/* The descriptors in @epfd that have @data, at most EPSET_SAME_MAX; 0: none, or
 * more. */
unsigned epset_find(int epfd, uint64_t data,
		    struct epset_found found[EPSET_SAME_MAX]);
/* A call has left something of @fd for the next one: where its events are edges, there
 * is another one.  Not with EPOLLONESHOT, where the program asks for the next one. */
void epset_again(int fd);
extern bool epset_has_edges; /* a member with EPOLLET was seen; atomic */
/* @fd is about to be closed: a set, or a member of sets. */
void epset_forget(int fd);
