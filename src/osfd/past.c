/* SPDX-License-Identifier: MIT */
/* osfd/past.c - see osfd/past.h */
#include "osfd/past.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sealed.h"

static int page_open(void)
{
	int fd = memfd_create("osf-past", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, PAST_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, SEALED_SEALS) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static struct past_page *page_find(struct pasts *p, uint32_t uid,
				   uint64_t program)
{
	for (unsigned i = 0; i < PASTS_MAX; i++)
		if (p->page[i].fd && p->page[i].uid == uid &&
		    p->page[i].program == program)
			return &p->page[i];
	return NULL;
}

/* A free entry, or the user's oldest one if the user has all that one may have. */
static struct past_page *page_place(struct pasts *p, uint32_t uid)
{
	struct past_page *oldest = NULL, *free_one = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < PASTS_MAX; i++) {
		struct past_page *at = &p->page[i];

		if (!at->fd) {
			free_one = at;
		} else if (at->uid == uid) {
			n++;
			if (!oldest || at->asked < oldest->asked)
				oldest = at;
		}
	}
	return n < PASTS_PER_UID && free_one ? free_one : oldest;
}

int pasts_page(struct pasts *p, uint32_t uid, uint64_t program)
{
	struct past_page *at = page_find(p, uid, program);

	if (!at) {
		at = page_place(p, uid);
		if (!at)
			return -ENOSPC;
		int fd = page_open();
		if (fd < 0)
			return fd;
		if (at->fd)
			close(at->fd);
		*at = (struct past_page){ fd, uid, program, 0 };
	}
	at->asked = ++p->n_asked;
	return at->fd;
}
