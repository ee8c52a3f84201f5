/* SPDX-License-Identifier: MIT */
/*
 * api/vma/epset.h - which descriptor an event of an epoll set is about
 *
 * An event has the program's data and not the descriptor.  So from the moment on when the
 * program asks for this API, we note what it says in epoll_ctl().  What it said before we
 * read from /proc/self/fdinfo.
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

/* Finds the descriptors in @epfd that have @data.  Return: how many; 0: none, or more than
 * EPSET_SAME_MAX */
unsigned epset_find(int epfd, uint64_t data,
		    struct epset_found found[EPSET_SAME_MAX]);
/* A call has left something on @fd for the next call.  Sets in which @fd has EPOLLET report
 * it once more.  Sets in which it has EPOLLONESHOT do not, because there the program asks
 * for the next event. */
void epset_again(int fd);
extern bool epset_has_edges; /* a member with EPOLLET was seen; atomic */
/* @fd is about to be closed: a set, or a member of sets. */
void epset_forget(int fd);
