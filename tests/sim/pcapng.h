/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/pcapng.h - packets, with their instants, in a file that tshark reads
 *
 * Packets begin at the IP header (link type RAW); instants are nanoseconds.
 * Spec: draft-ietf-opsawg-pcapng
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct pcapng {
	FILE *out;
};

/* Begins a file with as many interfaces as there are names; NULL ends them.
 * Return: 0, or a negative errno of the file's. */
int pcapng_open(struct pcapng *p, const char *path, const char *const *names);

/* @comment: stands beside the packet; NULL: none */
void pcapng_packet(struct pcapng *p, uint32_t interface, uint64_t at_ns,
		   const void *data, uint32_t len, const char *comment);

/* Return: 0, or -EIO when not all could be written. */
int pcapng_close(struct pcapng *p);
