/* SPDX-License-Identifier: MIT */
/*
 * tests/app/hostile.h - what the files of the hostile peer share
 *
 *     hostile.c         which manner, and how often; odd ways to fall back
 *     hostile_foe.c     TCP, the rendezvous and the memory, as an honest peer has them
 *     hostile_wrong.c   ways to get the rendezvous wrong
 *     hostile_attack.c  nonsense in the memory of a connection that has moved
 *     hostile_stranger.c  who has no part in a connection
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback.h"
#include "proto/shm/inbox.h"
#include "proto/shm/other_end.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/ring.h"
#include "proto/shm/segment.h"

#define RING_BYTES (256u * 1024)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

struct foe {
	int tcp, channel;
	struct seg *seg;
	uint32_t ring; /* bytes of each */
	unsigned side; /* ours */
	uint32_t head; /* of our ring */
	struct inbox *in, *own;
	int own_fd;
	uint8_t own_id[16];
	struct notice notice;
	uint64_t rng;
};

struct manners {
	const char *name; /* NULL: the list ends */
	void (*behave)(struct foe *f);
};
extern const struct manners bad_acceptors[], bad_openers[];
extern const struct manners attacks[];
/* It does not say that it writes to the ring. */
bool attack_is_by_tcp(const struct manners *m);
#define N_FOR_ANY 12 /* the first attacks, which stay within the segment */

/* How long the victim may take to answer. */
extern int patience_ms;

/* Random numbers, by the seed and the round. */
uint64_t next(struct foe *f);
uint32_t below(struct foe *f, uint32_t n);
uint64_t ms_now(void);
void give_up(const char *why);

int memory(size_t bytes, unsigned flags, int seals);
int segment(struct foe *f, int seals);
void own_inbox(struct foe *f);

int tcp_socket(void);
/* The victim's socket for the connection that we have accepted; -1 when it does not appear in
 * time. */
int proposal_of_victim(struct foe *f);
/* The offer of a connection between others. */
int proposal_of_others(uint16_t client, uint16_t server);
struct hello hello_make(const struct foe *f);
/* At most 8 descriptors. */
void say(int channel, const struct hello *h, size_t len, const int *fds,
	 size_t n);
/* What the victim says; false when it says nothing in @ms. */
bool listen_to(int channel, int ms, struct hello *h, int fds[2]);
void close_all(const int *fds, size_t n);
void take_memory(struct foe *f, int seg_fd, int inbox_fd);
/* A channel with the victim, its segment mapped, as one who offers. */
bool channel_as_opener(struct foe *f, uint16_t server);
void channel_close(struct foe *f);
void foe_close(struct foe *f);

/* The halves of the segment, and what an honest producer does with its ring. */
struct seg_side *me(struct foe *f);
struct seg_side *victim(struct foe *f);
void header_put(struct foe *f, uint32_t off, uint64_t hdr);
/* As an honest producer would, if there is room. */
void record(struct foe *f, uint32_t len);
void bell(struct foe *f);
