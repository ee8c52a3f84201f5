/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/program.h - may a library be preloaded into a program?
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum elf_verdict {
	ELF_MAY_PRELOAD, /* or nothing that could be read says otherwise */
	ELF_IS_STATIC,   /* no dynamic linker runs, its children may be fine */
	ELF_IS_SECURE,   /* ld.so ignores LD_PRELOAD: set-id or capabilities */
	ELF_IS_FOREIGN,  /* another class or machine than the library */
	ELF_IS_RAW,      /* its system calls are not the C library's: no use */
};

/* Why, as the end of "... cannot be preloaded because". */
#define ELF_WHY_MAX 512

/**
 * elf_examine() - what LD_PRELOAD=@lib would do to @program
 * @program: path of an executable; "#!" is followed as the kernel does
 * @why: ELF_WHY_MAX bytes; filled unless the verdict is ELF_MAY_PRELOAD
 */
enum elf_verdict elf_examine(const char *program, const char *lib, char *why);

/* Is @path an ELF file that ld.so could load into some program?  *@is_ours: is it libosf.so
 * by the name inside the file, whatever the file is called? */
bool elf_is_library(const char *path, bool *is_ours);
