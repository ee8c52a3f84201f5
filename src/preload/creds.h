/* SPDX-License-Identifier: MIT */
/* preload/creds.h - see preload/creds.c */
#pragma once

/* The program is about to make system call @nr with these arguments. */
void creds_raw(long nr, long a, long b, long c);
/* Before clone(), in the parent. */
void creds_before_clone(long flags);
/* In the child of clone(): @flags may have given it a user namespace. */
void creds_after_clone(long flags);
