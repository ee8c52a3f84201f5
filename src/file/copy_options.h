/* SPDX-License-Identifier: MIT */
/*
 * file/copy_options.h - one TCP socket's options, set on another
 *
 * A relay's new socket (file/relay.h) takes the place of the program's own.  The program, or
 * the one that it executes, goes on with the options that it has set before.
 *
 * Any thread; errno may change.
 */
#pragma once

/* Set on @to what a program may have set on @from: options whose values differ, and how and to
 * whom fcntl() tells of news.  What the kernel refuses to set stays as it is on @to. */
void copy_options(int from, int to);
