/* SPDX-License-Identifier: MIT */
/* tests/app/hostile_wrong.c - ways to get the rendezvous wrong */
#include "hostile.h"

#include <stdio.h>

static void pass(struct foe *f, const struct hello *h, size_t len,
		 const int *fds, size_t n)
{
	f->channel = proposal_of_victim(f);
	if (f->channel < 0)
		give_up("no offer");
	say(f->channel, h, len, fds, n);
}

static void pass_with(struct foe *f, int seg_fd, int inbox_fd)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), (int[]){ seg_fd, inbox_fd }, 2);
}

static void bad_unsealed(struct foe *f)
{
	pass_with(f, segment(f, 0), f->own_fd);
}

static void bad_half_sealed(struct foe *f)
{
	pass_with(f, segment(f, F_SEAL_GROW), f->own_fd);
}

static void bad_short_segment(struct foe *f)
{
	pass_with(f, memory(SEG_PAGE, MFD_ALLOW_SEALING, SEALS), f->own_fd);
}

static void bad_empty_segment(struct foe *f)
{
	pass_with(f, memory(0, MFD_ALLOW_SEALING, SEALS), f->own_fd);
}

static void bad_odd_segment(struct foe *f)
{
	pass_with(f,
		  memory(seg_bytes(RING_BYTES) + 1, MFD_ALLOW_SEALING, SEALS),
		  f->own_fd);
}

static void bad_huge_segment(struct foe *f)
{
	pass_with(
	    f, memory(SEG_PAGE + ((size_t)3 << 31), MFD_ALLOW_SEALING, SEALS),
	    f->own_fd);
}

/* The right size, and a lie about it inside. */
static void bad_ring_size(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->ring_size *= 2;
	pass_with(f, fd, f->own_fd);
}

static void bad_segment_magic(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->magic++;
	pass_with(f, fd, f->own_fd);
}

static void bad_segment_version(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->version++;
	pass_with(f, fd, f->own_fd);
}

static void bad_pipe(struct foe *f)
{
	int fds[2];

	if (pipe(fds))
		give_up("pipe");
	pass_with(f, fds[0], f->own_fd);
}

static void bad_device(struct foe *f)
{
	pass_with(f, open("/dev/zero", O_RDWR | O_CLOEXEC), f->own_fd);
}

static void bad_write_sealed(struct foe *f)
{
	int fd = segment(f, 0);

	if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE))
		give_up("F_SEAL_FUTURE_WRITE");
	pass_with(f, fd, f->own_fd);
}

static void bad_read_only(struct foe *f)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", segment(f, SEALS));
	pass_with(f, open(path, O_RDONLY | O_CLOEXEC), f->own_fd);
}

static void bad_unsealed_inbox(struct foe *f)
{
	pass_with(f, segment(f, SEALS),
		  memory(sizeof(struct inbox), MFD_ALLOW_SEALING, 0));
}

static void bad_short_inbox(struct foe *f)
{
	pass_with(
	    f, segment(f, SEALS),
	    memory(sizeof(struct inbox) - 4096, MFD_ALLOW_SEALING, SEALS));
}

static void bad_one_descriptor(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS) }, 1);
}

static void bad_no_descriptor(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), NULL, 0);
}

static void bad_many_descriptors(struct foe *f)
{
	struct hello h = hello_make(f);
	int s = segment(f, SEALS), i = f->own_fd;

	pass(f, &h, sizeof(h), (int[]){ s, i, s, i, s, i, s, i }, 8);
}

static void bad_short_hello(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h) - 1, (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

static void bad_magic(struct foe *f)
{
	struct hello h = hello_make(f);

	h.magic ^= 1;
	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

static void bad_version(struct foe *f)
{
	struct hello h = hello_make(f);

	h.version++;
	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

/* Takes the offer and says nothing. */
static void bad_mute(struct foe *f)
{
	f->channel = proposal_of_victim(f);
	if (f->channel < 0)
		give_up("no offer");
}

static void bad_gone(struct foe *f)
{
	bad_mute(f);
	channel_close(f);
}

/* --- the same as one who offers: the segment has come, f->seg --- */

static void bad_holds(struct foe *f) {}

static void bad_declines(struct foe *f) { channel_close(f); }

/* Neither taken nor free. */
static void bad_flags(struct foe *f) { f->seg->side[1].flags = SEG_LENDS; }

static void bad_flags_and_goes(struct foe *f)
{
	bad_flags(f);
	channel_close(f);
}

/* Says that it puts bytes back, for good, and has not taken the segment. */
static void bad_back(struct foe *f) { f->seg->side[1].flags = SEG_FALLBACK; }

static void bad_answer(struct foe *f)
{
	struct hello h = hello_make(f);

	h.magic ^= 1;
	say(f->channel, &h, 5, NULL, 0);
}

const struct manners bad_acceptors[] = {
	{ "unsealed", bad_unsealed },
	{ "half_sealed", bad_half_sealed },
	{ "short_segment", bad_short_segment },
	{ "empty_segment", bad_empty_segment },
	{ "odd_segment", bad_odd_segment },
	{ "huge_segment", bad_huge_segment },
	{ "ring_size", bad_ring_size },
	{ "segment_magic", bad_segment_magic },
	{ "segment_version", bad_segment_version },
	{ "pipe", bad_pipe },
	{ "device", bad_device },
	{ "write_sealed", bad_write_sealed },
	{ "read_only", bad_read_only },
	{ "unsealed_inbox", bad_unsealed_inbox },
	{ "short_inbox", bad_short_inbox },
	{ "one_descriptor", bad_one_descriptor },
	{ "no_descriptor", bad_no_descriptor },
	{ "many_descriptors", bad_many_descriptors },
	{ "short_hello", bad_short_hello },
	{ "magic", bad_magic },
	{ "version", bad_version },
	{ "mute", bad_mute },
	{ "gone", bad_gone },
	{ 0 }
};

const struct manners bad_openers[] = { { "holds", bad_holds },
				       { "declines", bad_declines },
				       { "half_taken", bad_flags },
				       { "half_taken_and_goes",
					 bad_flags_and_goes },
				       { "half_back", bad_back },
				       { "answer", bad_answer },
				       { 0 } };
