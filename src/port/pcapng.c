/* SPDX-License-Identifier: MIT */
/*
 * port/pcapng.c - writes frames to a file that tshark reads; see pcapng.h
 *
 * A file is a section header, an interface description for each interface, and an enhanced
 * packet for each frame.  A block has its length at its start and again at its end.  An
 * option is a code, a length and bytes, padded to four.  Everything is in the byte order of
 * this machine, which the section header tells.
 */
#include "port/pcapng.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SECTION 0x0a0d0d0au
#define INTERFACE 1u
#define PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define TEXT_MAX 65532u /* an option's length is 16 bits */
#define NANOSECONDS 9   /* a power of ten */

enum option_code {
	OPT_END,
	OPT_COMMENT,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_TSRESOL = 9,
	EPB_FLAGS = 2,
	EPB_DROPCOUNT = 4,
};

static uint32_t padded(uint32_t len) { return (len + 3) / 4 * 4; }

static uint32_t text_len(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return (uint32_t)MIN(n, (size_t)TEXT_MAX);
}

/* The bytes of a text's option; none for no text. */
static uint32_t text_size(const char *text)
{
	return text ? 4 + padded(text_len(text)) : 0;
}

static void words(struct pcapng *p, const uint32_t *w, uint32_t n)
{
	fwrite(w, 4, n, p->out);
}

static void bytes(struct pcapng *p, const void *data, uint32_t len)
{
	static const char zero[4];

	if (len)
		fwrite(data, 1, len, p->out);
	fwrite(zero, 1, padded(len) - len, p->out);
}

static void option(struct pcapng *p, enum option_code code, const void *data,
		   uint32_t len)
{
	uint16_t head[2] = { (uint16_t)code, (uint16_t)len };

	fwrite(head, 2, 2, p->out);
	bytes(p, data, len);
}

static void text(struct pcapng *p, enum option_code code, const char *text)
{
	if (text)
		option(p, code, text, text_len(text));
}

/* The end of the options, and the block's length again. */
static void block_end(struct pcapng *p, uint32_t len)
{
	words(p, (uint32_t[]){ OPT_END, len }, 2);
}

int pcapng_open(struct pcapng *p, const char *path)
{
	bool is_stdout = strcmp(path, "-") == 0;

	*p = (struct pcapng){ .out = is_stdout ? stdout : fopen(path, "we") };
	if (!p->out)
		return -errno;
	/* Version 1.0, of unspecified length. */
	words(p,
	      (uint32_t[]){ SECTION, 28, BYTE_ORDER_MAGIC, 1, UINT32_MAX,
			    UINT32_MAX, 28 },
	      7);
	return 0;
}

uint32_t pcapng_interface(struct pcapng *p, enum pcapng_link link,
			  const char *name, const char *about)
{
	uint32_t len = 16 + text_size(name) + text_size(about) + 8 + 8;
	const uint8_t resolution = NANOSECONDS;

	words(p, (uint32_t[]){ INTERFACE, len, link, 0 }, 4);
	text(p, IF_NAME, name);
	text(p, IF_DESCRIPTION, about);
	option(p, IF_TSRESOL, &resolution, 1);
	block_end(p, len);
	return p->n_interfaces++;
}

void pcapng_write(struct pcapng *p, const struct pcapng_frame *f)
{
	uint32_t whole = f->wire_len ? f->wire_len : f->len;
	uint32_t flags = f->direction;
	uint64_t n_lost = f->n_lost;
	uint32_t len = 28 + padded(f->len) + text_size(f->comment) + 8;

	len += f->direction ? 8 : 0;
	len += n_lost ? 12 : 0;
	words(p,
	      (uint32_t[]){ PACKET, len, f->interface,
			    (uint32_t)(f->at_ns >> 32), (uint32_t)f->at_ns,
			    f->len, whole },
	      7);
	bytes(p, f->data, f->len);
	text(p, OPT_COMMENT, f->comment);
	if (f->direction)
		option(p, EPB_FLAGS, &flags, 4);
	if (n_lost)
		option(p, EPB_DROPCOUNT, &n_lost, 8);
	block_end(p, len);
}

int pcapng_flush(struct pcapng *p)
{
	return fflush(p->out) || ferror(p->out) ? -EIO : 0;
}

int pcapng_close(struct pcapng *p)
{
	int err = pcapng_flush(p);

	if (p->out != stdout && fclose(p->out))
		err = -EIO;
	p->out = NULL;
	return err;
}
