/* SPDX-License-Identifier: MIT */
/*
 * osfd/client.h - a program's side of osfd's socket
 *
 * Owner: one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "osfd/msg.h"

/**
 * osfd_connect() - reach the osfd of this network namespace, and say hello
 * @hello: what osfd has answered, also when the versions do not fit
 *
 * Return: a descriptor, or
 *   -ECONNREFUSED    no osfd runs here
 *   -EPERM           a user other than root has the name
 *   -EPROTONOSUPPORT the versions do not fit
 *   -EIO             it does not answer, or closes each connection
 */
MUST_CHECK int osfd_connect(struct reply *hello);

/**
 * osfd_call() - a request and its reply
 * @fds: descriptors that go with the request
 * @got: descriptors that came with the reply, or -1; NULL: none are expected
 *
 * Return: 0 or a negative errno: osfd's, with its reason in @out, or -EIO when osfd has
 * gone
 */
MUST_CHECK int osfd_call(int fd, enum msg_type type, struct request *r,
			 const int *fds, unsigned n_fds, struct reply *out,
			 int got[2]);

/* The two halves of osfd_call(), for callers that do something else meanwhile.  One request
 * at a time.  osfd_answer() returns -EAGAIN and leaves out->err 0 if there is no answer yet
 * and the caller does not want to wait. */
MUST_CHECK int osfd_ask(int fd, enum msg_type type, struct request *r,
			const int *fds, unsigned n_fds);
MUST_CHECK int osfd_answer(int fd, struct reply *out, int got[2], bool waits);
