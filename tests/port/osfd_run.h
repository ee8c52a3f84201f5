/* SPDX-License-Identifier: MIT */
/*
 * tests/port/osfd_run.h - an osfd of the test's own, HERE, and programs that talk to it
 *
 * A step that fails ends the test.
 */
#pragma once

#include <sys/types.h>

#include "osfd/client.h"
#include "world.h"

extern const char *osfd_path;
extern pid_t osfd_pid;

/* It listens on return.  @prepare: what its process does first */
void osfd_run(const struct world *w);
void osfd_run_after(const struct world *w, void (*prepare)(void));
void osfd_kill(int sig);
/* Removes the file by which an osfd finds its ports after a crash. */
void osfd_forget(const struct world *w);

/* Around each test, with its world as the state: an osfd with the port va, which SIGTERM
 * ends. */
#define OSFD_TEST(name, world)                                                 \
	cmocka_unit_test_prestate_setup_teardown(name, osfd_setup,             \
						 osfd_teardown, world)
int osfd_setup(void **world);
int osfd_teardown(void **world);

/* Opens the world, runs the tests of an array in it, and removes what osfd_forget() does.
 * Return: how many have failed */
#define osfd_run_tests(world, tests)                                           \
	osfd_run_group((world), (tests), sizeof(tests) / sizeof(*(tests)))
struct CMUnitTest;
int osfd_run_group(struct world *w, const struct CMUnitTest *tests, size_t n);

/* How many descriptors a process has. */
unsigned n_fds_of(pid_t pid);

int must_connect(void);
/* ADD, DEL, OPEN of va. */
int port_call(int fd, enum msg_type type, uint32_t uid, struct reply *r);
/* How many ports there are, and the first of them. */
uint32_t n_listed(int fd, struct msg_listed *first);

/* What a program has of a port. */
struct program {
	int osfd, link;
	struct packet_port port;
	uint32_t grant;
};

void program_open(struct program *p);
void program_open_at(struct program *p, const char *dev);
void program_close(struct program *p);
int program_freeze(struct program *p, int fd, struct reply *r);
int program_thaw(struct program *p, int fd, const struct frozen *f);
