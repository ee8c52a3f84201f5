/* SPDX-License-Identifier: MIT */
/*
 * base/program.c - see base/program.h
 *
 * Go's linker puts a note with the owner "Go" into each program, and strip(1) keeps it.
 * It lies in memory behind the program headers, whose place the kernel tells us.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/compiler.h"
#include "base/program.h"

#define NUMBER_BYTES 4096

/* Of FNV-1a. */
#define NUMBER_BASIS 0xcbf29ce484222325u
#define NUMBER_PRIME 0x100000001b3u

static char name[64];
static uint64_t number;

/* Adds a text and its end.  Return: how many of @max bytes are left */
static size_t add(const char *text, size_t max)
{
	for (bool ends = false; max && !ends; max--, text++) {
		number = (number ^ (uint8_t)*text) * NUMBER_PRIME;
		ends = !*text;
	}
	return max;
}

void program_start(char *const *argv)
{
	const char *path = (const char *)getauxval(AT_EXECFN);

	snprintf(name, sizeof(name), "%s", program_invocation_short_name);
	number = NUMBER_BASIS;
	size_t left = add(path ? path : "", NUMBER_BYTES);
	for (; argv && *argv && left; argv++)
		left = add(*argv, left);
}

const char *program_name(void) { return name; }
uint64_t program_number(void) { return number; }

static size_t align4(size_t n) { return (n + 3) & ~(size_t)3; }

/* Whether one of the notes in @size bytes at @at is Go's. */
static bool has_go_note(const char *at, size_t size)
{
	static const char owner[] = "Go\0"; /* padded to four bytes */
	ElfW(Nhdr) note;

	while (size >= sizeof(note) + sizeof(owner)) {
		memcpy(&note, at, sizeof(note));
		if (note.n_namesz == sizeof(owner) &&
		    !memcmp(at + sizeof(note), owner, sizeof(owner)))
			return true;
		size_t len = sizeof(note) + align4(note.n_namesz) +
			     align4(note.n_descsz);
		if (len > size)
			return false;
		at += len;
		size -= len;
	}
	return false;
}

bool program_is_go(void)
{
	const ElfW(Phdr) *phdr = (const void *)getauxval(AT_PHDR);
	unsigned long n = phdr ? getauxval(AT_PHNUM) : 0;
	uintptr_t base = 0;

	for (unsigned long i = 0; i < n; i++)
		if (phdr[i].p_type == PT_PHDR)
			base = (uintptr_t)phdr - phdr[i].p_vaddr;
	for (unsigned long i = 0; i < n; i++)
		if (phdr[i].p_type == PT_NOTE &&
		    has_go_note((const char *)(base + phdr[i].p_vaddr),
				phdr[i].p_memsz))
			return true;
	return false;
}
