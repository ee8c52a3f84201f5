/* SPDX-License-Identifier: MIT */
/* tests/sim/pcapng.c - writes packets to a file that tshark reads; see pcapng.h */
#include "pcapng.h"

#include <errno.h>
#include <string.h>

#define SECTION 0x0a0d0d0au
#define INTERFACE 1u
#define PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINK_RAW 101u
#define OPT_COMMENT 1
#define OPT_IF_NAME 2
#define OPT_IF_TSRESOL 9
#define NANOSECONDS 9

static uint32_t padded(uint32_t len) { return (len + 3) / 4 * 4; }

static void words(struct pcapng *p, const uint32_t *w, uint32_t n)
{
	fwrite(w, 4, n, p->out);
}

static void bytes(struct pcapng *p, const void *data, uint32_t len)
{
	static const char zero[4];

	fwrite(data, 1, len, p->out);
	fwrite(zero, 1, padded(len) - len, p->out);
}

static void option(struct pcapng *p, uint16_t code, const void *data,
		   uint32_t len)
{
	uint16_t head[2] = { code, (uint16_t)len };

	fwrite(head, 2, 2, p->out);
	bytes(p, data, len);
}

static void interface_block(struct pcapng *p, const char *name)
{
	uint32_t n = (uint32_t)strlen(name);
	uint32_t len = 20 + 4 + padded(n) + 8 + 4;
	const uint8_t resolution = NANOSECONDS;

	words(p, (uint32_t[]){ INTERFACE, len, LINK_RAW, 0 }, 4);
	option(p, OPT_IF_NAME, name, n);
	option(p, OPT_IF_TSRESOL, &resolution, 1);
	words(p, (uint32_t[]){ 0, len }, 2);
}

int pcapng_open(struct pcapng *p, const char *path, const char *const *names)
{
	p->out = fopen(path, "w");
	if (!p->out)
		return -errno;
	/* Version 1.0, of unspecified length. */
	words(p,
	      (uint32_t[]){ SECTION, 28, BYTE_ORDER_MAGIC, 1, UINT32_MAX,
			    UINT32_MAX, 28 },
	      7);
	for (; *names; names++)
		interface_block(p, *names);
	return 0;
}

void pcapng_packet(struct pcapng *p, uint32_t interface, uint64_t at_ns,
		   const void *data, uint32_t len, const char *comment)
{
	uint32_t n = comment ? (uint32_t)strlen(comment) : 0;
	uint32_t options = comment ? 4 + padded(n) + 4 : 0;
	uint32_t whole = 32 + padded(len) + options;

	words(p,
	      (uint32_t[]){ PACKET, whole, interface, (uint32_t)(at_ns >> 32),
			    (uint32_t)at_ns, len, len },
	      7);
	bytes(p, data, len);
	if (comment) {
		option(p, OPT_COMMENT, comment, n);
		words(p, (uint32_t[]){ 0 }, 1);
	}
	words(p, &whole, 1);
}

int pcapng_close(struct pcapng *p)
{
	int err = ferror(p->out) ? -EIO : 0;

	if (fclose(p->out))
		err = -EIO;
	p->out = NULL;
	return err;
}
