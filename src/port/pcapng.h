/* SPDX-License-Identifier: MIT */
/*
 * port/pcapng.h - writes frames with their times to a file that tshark reads
 *
 *     pcapng_open() -> pcapng_interface() for each -> pcapng_write() for each frame
 *         -> pcapng_close()
 *
 * Times are in nanoseconds.  pcapng_close() returns -EIO if a write has failed.
 *
 * Spec: draft-ietf-opsawg-pcapng Owner: one thread.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

/* The header with which a frame begins. */
enum pcapng_link {
	PCAPNG_ETHERNET = 1,
	PCAPNG_IP = 101, /* a header of IPv4 or IPv6 */
};

enum pcapng_direction {
	PCAPNG_UNKNOWN,
	PCAPNG_IN,
	PCAPNG_OUT,
};

struct pcapng {
	FILE *out;
	uint32_t n_interfaces;
};

struct pcapng_frame {
	uint32_t interface;
	enum pcapng_direction direction;
	uint64_t at_ns; /* since 1970, so that readers can show a date */
	const void *data;
	uint32_t len;        /* bytes at data */
	uint32_t wire_len;   /* of the whole frame; 0: len */
	uint32_t n_lost;     /* frames before this one that are missing */
	const char *comment; /* shown with the frame; NULL: none */
};

/**
 * pcapng_open() - begin a file
 * @path: "-" for standard output
 *
 * Return: 0, or a negative errno of the file
 */
MUST_CHECK int pcapng_open(struct pcapng *p, const char *path);

/* @about: a description, or NULL.  Return: the interface's number */
uint32_t pcapng_interface(struct pcapng *p, enum pcapng_link link,
			  const char *name, const char *about);

void pcapng_write(struct pcapng *p, const struct pcapng_frame *f);

/* Hands what was written to the file.  Return: 0, or -EIO when something was not written */
int pcapng_flush(struct pcapng *p);
int pcapng_close(struct pcapng *p);
