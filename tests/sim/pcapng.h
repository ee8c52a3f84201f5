/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/pcapng.h - writes packets with their times to a file that tshark reads
 *
 * A packet begins at the IP header (link type RAW).  Times are in nanoseconds.  Spec:
 * draft-ietf-opsawg-pcapng
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct pcapng {
	FILE *out;
};

/* Begins a file with one interface for each name; NULL ends the names.  Return: 0, or a
 * negative errno of the file */
int pcapng_open(struct pcapng *p, const char *path, const char *const *names);

/* @comment: is shown with the packet; NULL: none */
void pcapng_packet(struct pcapng *p, uint32_t interface, uint64_t at_ns,
		   const void *data, uint32_t len, const char *comment);

/* Return: 0, or -EIO when not everything could be written. */
int pcapng_close(struct pcapng *p);
