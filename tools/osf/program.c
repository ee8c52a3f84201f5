/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/program.c - may a library be preloaded into a program?
 *
 *     run.c -> elf_examine() -> verdict, and why in words
 *
 * ld.so honours LD_PRELOAD when it runs at all (the file has PT_INTERP), when the program
 * does not gain privileges by being executed (AT_SECURE), and when class and machine are
 * the library's.  A script is judged by its interpreter.  execvp() runs a file that is
 * neither ELF nor a script through /bin/sh.
 *
 * The files are input, so everything read is checked.  A file that cannot be read counts as
 * fine, because an attempt to execute it will tell.
 *
 * Spec: elf(5), execve(2) "Interpreter scripts", ld.so(8) "secure-execution".
 */
#include "program.h"
#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SHEBANG_DEPTH 5     /* as deep as the kernel goes */
#define SHEBANG_BYTES 256   /* as much of the first line as it reads */
#define PHDRS_MAX 512       /* program headers looked at */
#define NOTE_BYTES_MAX 4096 /* of the notes in one of them */
#define SONAME_MAX 64
#define OUR_SONAME "libosf" /* and .so, or _debug.so */

struct elf_id {
	uint8_t class, data;
	uint16_t machine, type;
};

/* The part of an ELF header that both classes have in the same place. */
static bool elf_id_read(int fd, struct elf_id *id)
{
	Elf32_Ehdr h;

	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return false;

	bool is_le = h.e_ident[EI_DATA] == ELFDATA2LSB;
	id->class = h.e_ident[EI_CLASS];
	id->data = h.e_ident[EI_DATA];
	id->machine = is_le ? le16toh(h.e_machine) : be16toh(h.e_machine);
	id->type = is_le ? le16toh(h.e_type) : be16toh(h.e_type);
	return true;
}

/* Go's linker leaves a note of the owner "Go", which strip(1) does not remove. */
static bool is_go_note(int fd, off_t at, uint64_t size)
{
	static const char owner[] = "Go\0"; /* padded to four bytes */
	char notes[NOTE_BYTES_MAX];

	ssize_t n =
	    pread(fd, notes, size < sizeof(notes) ? size : sizeof(notes), at);
	for (size_t i = 0; n > 0 && i + 12 + sizeof(owner) <= (size_t)n;) {
		uint32_t head[3]; /* sizes of name and text, type */

		memcpy(head, notes + i, sizeof(head));
		if (head[0] == sizeof(owner) &&
		    !memcmp(notes + i + 12, owner, sizeof(owner)))
			return true;
		if (head[0] > NOTE_BYTES_MAX || head[1] > NOTE_BYTES_MAX)
			return false;
		i += 12 + ((head[0] + 3u) & ~3u) + ((head[1] + 3u) & ~3u);
	}
	return false;
}

/* Did Go's compiler make it?  For machines of our own kind alone. */
static bool is_go(int fd, const struct elf_id *id)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (id->class != ELFCLASS64 ||
	    pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    h.e_phoff > INT64_MAX / 2)
		return false;
	for (unsigned i = 0; i < h.e_phnum && i < PHDRS_MAX; i++) {
		off_t off = (off_t)h.e_phoff + (off_t)i * h.e_phentsize;
		if (pread(fd, &p, sizeof(p), off) != (ssize_t)sizeof(p))
			return false;
		if (p.p_type == PT_NOTE && p.p_offset <= INT64_MAX / 2 &&
		    is_go_note(fd, (off_t)p.p_offset, p.p_filesz))
			return true;
	}
	return false;
}

static bool has_interp32(int fd)
{
	Elf32_Ehdr h;
	Elf32_Phdr p;

	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return true;
	for (unsigned i = 0; i < h.e_phnum && i < PHDRS_MAX; i++) {
		off_t off = (off_t)h.e_phoff + (off_t)i * h.e_phentsize;
		if (pread(fd, &p, sizeof(p), off) != (ssize_t)sizeof(p))
			return true;
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

static bool has_interp64(int fd)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    h.e_phoff > INT64_MAX / 2)
		return true;
	for (unsigned i = 0; i < h.e_phnum && i < PHDRS_MAX; i++) {
		off_t off = (off_t)h.e_phoff + (off_t)i * h.e_phentsize;
		if (pread(fd, &p, sizeof(p), off) != (ssize_t)sizeof(p))
			return true;
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* `/lib64/ld-linux-x86-64.so.2 CMD` has no PT_INTERP and yet preloads. */
static bool is_dynamic_linker(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.so", 5) == 0;
}

/* Would the kernel set AT_SECURE?  Group and capability rules are those of
 * execve(2) for a caller without ambient capabilities. */
static const char *secure_reason(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "is set-user-ID";
	if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
	    st.st_gid != getgid())
		return "is set-group-ID";
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

static enum elf_verdict examine_elf(int fd, const char *path,
				    const struct elf_id *id,
				    const struct elf_id *lib, const char **why)
{
	if (lib && (id->class != lib->class || id->data != lib->data ||
		    id->machine != lib->machine)) {
		*why = "is for another machine or word size";
		return ELF_IS_FOREIGN;
	}
	bool has_interp =
	    id->class == ELFCLASS32 ? has_interp32(fd) : has_interp64(fd);
	if (!has_interp && !is_dynamic_linker(path)) {
		*why = "is statically linked";
		return ELF_IS_STATIC;
	}
	*why = secure_reason(fd);
	if (*why)
		return ELF_IS_SECURE;
	if (!is_go(fd, id))
		return ELF_MAY_PRELOAD;
	*why = "is written in Go, whose system calls do not go through the C "
	       "library";
	return ELF_IS_RAW;
}

/* The interpreter that a first line "#! PATH [ARG]" names. */
static bool shebang_read(int fd, char *interp)
{
	char line[SHEBANG_BYTES + 1];
	ssize_t n = pread(fd, line, SHEBANG_BYTES, 0);

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';

	char *from = line + 2 + strspn(line + 2, " \t");
	from[strcspn(from, " \t")] = '\0';
	if (!*from)
		return false;
	memcpy(interp, from, strlen(from) + 1);
	return true;
}

static void say_why(char *why, const char *program, const char *path,
		    const char *text)
{
	if (strcmp(program, path) == 0)
		snprintf(why, ELF_WHY_MAX, "it %s", text);
	else
		snprintf(why, ELF_WHY_MAX, "its interpreter %s %s", path, text);
}

enum elf_verdict elf_examine(const char *program, const char *lib, char *why)
{
	char path[SHEBANG_BYTES + 1];
	const char *now = program;
	struct elf_id lib_id, id;

	int fd = open(lib, O_RDONLY | O_CLOEXEC);
	bool has_lib = fd >= 0 && elf_id_read(fd, &lib_id);
	if (fd >= 0)
		close(fd);

	for (unsigned depth = 0; depth <= SHEBANG_DEPTH; depth++) {
		fd = open(now, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return ELF_MAY_PRELOAD;
		if (elf_id_read(fd, &id)) {
			const char *text = NULL;
			enum elf_verdict v = examine_elf(
			    fd, now, &id, has_lib ? &lib_id : NULL, &text);
			close(fd);
			if (v != ELF_MAY_PRELOAD)
				say_why(why, program, now, text);
			return v;
		}
		if (!shebang_read(fd, path))
			strcpy(path, "/bin/sh");
		close(fd);
		now = path;
	}
	return ELF_MAY_PRELOAD;
}

/* Where the file has what is at address @va in memory, or -1. */
static off_t offset_of(int fd, const Elf64_Ehdr *h, uint64_t va)
{
	Elf64_Phdr p;

	for (unsigned i = 0; i < h->e_phnum && i < PHDRS_MAX; i++) {
		off_t off = (off_t)h->e_phoff + (off_t)i * h->e_phentsize;
		if (pread(fd, &p, sizeof(p), off) != (ssize_t)sizeof(p))
			return -1;
		if (p.p_type == PT_LOAD && va >= p.p_vaddr &&
		    va - p.p_vaddr < p.p_filesz && p.p_offset <= INT64_MAX / 2)
			return (off_t)(p.p_offset + (va - p.p_vaddr));
	}
	return -1;
}

/* The addresses of the string table, and of the name in it. */
static bool find_soname(int fd, off_t at, uint64_t size, uint64_t *strings,
			uint64_t *name)
{
	bool has_strings = false, has_name = false;
	Elf64_Dyn d;

	for (uint64_t i = 0; i < size / sizeof(d) && i < PHDRS_MAX; i++) {
		if (pread(fd, &d, sizeof(d), at + (off_t)(i * sizeof(d))) !=
		    (ssize_t)sizeof(d))
			break;
		if (d.d_tag == DT_STRTAB) {
			*strings = d.d_un.d_ptr;
			has_strings = true;
		} else if (d.d_tag == DT_SONAME) {
			*name = d.d_un.d_val;
			has_name = true;
		}
	}
	return has_strings && has_name;
}

/* The name that a library says it has: empty for none, or none of our class. */
static void soname_read(int fd, const struct elf_id *id, char *soname)
{
	uint64_t strings = 0, name = 0;
	Elf64_Ehdr h;
	Elf64_Phdr p;

	soname[0] = '\0';
	if (id->class != ELFCLASS64 ||
	    pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    h.e_phoff > INT64_MAX / 2)
		return;
	for (unsigned i = 0; i < h.e_phnum && i < PHDRS_MAX; i++) {
		off_t off = (off_t)h.e_phoff + (off_t)i * h.e_phentsize;
		if (pread(fd, &p, sizeof(p), off) != (ssize_t)sizeof(p))
			return;
		if (p.p_type != PT_DYNAMIC || p.p_offset > INT64_MAX / 2 ||
		    !find_soname(fd, (off_t)p.p_offset, p.p_filesz, &strings,
				 &name))
			continue;
		off = offset_of(fd, &h, strings + name);
		ssize_t n =
		    off < 0 ? -1 : pread(fd, soname, SONAME_MAX - 1, off);
		soname[n > 0 ? n : 0] = '\0';
		return;
	}
}

bool elf_is_library(const char *path, bool *is_ours)
{
	char soname[SONAME_MAX];
	struct elf_id id;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	bool yes = fd >= 0 && elf_id_read(fd, &id) && id.type == ET_DYN;
	if (yes) {
		soname_read(fd, &id, soname);
		*is_ours = strncmp(soname, OUR_SONAME, strlen(OUR_SONAME)) == 0;
	}
	if (fd >= 0)
		close(fd);
	return yes;
}
