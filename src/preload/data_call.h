/* SPDX-License-Identifier: MIT */
/*
 * preload/data_call.h - what all calls that move bytes have in common
 *
 * A young socket is counted in and out around libc's call; a socket of ours is served
 * by our own function; and a call under which the socket went back to the kernel is
 * made again as libc's.
 */
#pragma once

#include "proto/inet/inet.h"
#include "preload/edge.h"

/*
 * One data call on a file of ours.  @kernel is libc's own call; if the socket goes
 * back to the kernel while we are at it, that is the answer too.
 */
#define DATA_CALL(c, dir, kernel, ours) DATA_CALL_OF(c, dir, kernel, ours, r_)
/* @moved: the bytes that libc's call moved, where it answers otherwise. */
#define DATA_CALL_OF(c, dir, kernel, ours, moved)                              \
	({                                                                     \
		struct sock *sk_ = (c).file->sk;                               \
		int errno_before_ = errno;                                     \
		call_may_sleep(&(c));                                          \
		ssize_t r_;                                                    \
		if ((dir) == DIR_TX && unlikely(!is_ours(sk_)) &&              \
		    inet_due_before_send(sk_))                                 \
			file_look((c).file, fd);                               \
		if (unlikely(!is_ours(sk_)) && call_enter(&(c))) {             \
			r_ = (kernel);                                         \
			call_leave(&(c));                                      \
			if (inet_account(sk_, (dir), (moved)))                 \
				file_look((c).file, fd);                       \
		} else {                                                       \
			r_ = (ours);                                           \
			if (unlikely(r_ == -ESTALE)) {                         \
				call_went_back(&(c));                          \
				r_ = (kernel);                                 \
			} else {                                               \
				r_ = libc_ret(r_, errno_before_);              \
			}                                                      \
		}                                                              \
		r_;                                                            \
	})
