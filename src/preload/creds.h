/* SPDX-License-Identifier: MIT */
/* preload/creds.h - see preload/creds.c */
#pragma once

/* The program is about to make system call @nr with these arguments. */
void creds_raw(long nr, long a, long b, long c);
