/* Registered memory that the fabric sees, too: private pages become pages of a file in memory that both have mapped.
 *
 * Contents and addresses stay. What is shared with others already, or is no plain memory, stays as it is, and the fabric reaches it past the
 * process. What belongs to the file, the kernel's list of mappings says: nothing is remembered here. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define NAME "fabriscope-shared"
/* The file's size, of which only what is used takes memory, and what lies between two pieces: one that is mapped anew, and longer, goes on there. */
#define FILE_SIZE ((uint64_t)1 << 50)
#define GAP ((uint64_t)1 << 32)
/* A number that programs do not use for theirs. */
#define LEAST_FD 900
#define MOST_PIECES 256

struct mapping {
	uintptr_t from, to;
	uint64_t offset;
	enum { OTHER, PRIVATE, SHARED } kind;
};

static int file = -1;
static ino_t inode;
static uint64_t next_offset;

/* The descriptor of the file; -1 where there is none. */
static int shared_file(void)
{
	struct stat is;
	if (file >= 0 && live_syscall(SYS_fstat, file, &is) == 0 && is.st_ino == inode)
		return file;
	file = -1;
	int made = (int)live_syscall(SYS_memfd_create, NAME, MFD_CLOEXEC);
	if (made < 0)
		return -1;
	int high = (int)live_syscall(SYS_fcntl, made, F_DUPFD_CLOEXEC, LEAST_FD);
	live_syscall(SYS_close, made);
	if (high < 0)
		return -1;
	if (live_syscall(SYS_ftruncate, high, FILE_SIZE) < 0 || live_syscall(SYS_fstat, high, &is) < 0) {
		live_syscall(SYS_close, high);
		return -1;
	}
	next_offset = 0;
	inode = is.st_ino;
	return file = high;
}

/* The mapping that a line of /proc/self/maps tells of. */
static bool understand(const char *line, struct mapping *of)
{
	unsigned long from, to, offset, number;
	char rights[5], path[64] = "";
	if (sscanf(line, "%lx-%lx %4s %lx %*s %lu %63s", &from, &to, rights, &offset, &number, path) < 5)
		return false;
	*of = (struct mapping){ from, to, offset, OTHER };
	if (!strncmp(rights, "rw", 2) && rights[3] == 's' && strstr(path, NAME) && number == inode)
		of->kind = SHARED;
	else if (!strncmp(rights, "rw-p", 4) && number == 0 && (!*path || !strcmp(path, "[heap]")))
		of->kind = PRIVATE;
	return true;
}

/* Calls `visit` for each mapping of the process between two addresses. */
static void each_mapping(uintptr_t from, uintptr_t to, void (*visit)(const struct mapping *, void *), void *with)
{
	static char text[1 << 16];
	size_t held = 0;
	int maps = (int)live_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (maps < 0)
		return;
	for (;;) {
		long more = live_syscall(SYS_read, maps, text + held, sizeof text - 1 - held);
		if (more <= 0)
			break;
		held += (size_t)more;
		text[held] = 0;
		char *line = text, *end;
		bool past = false;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			struct mapping of;
			*end = 0;
			if (!understand(line, &of))
				continue;
			if (of.to > from && of.from < to)
				visit(&of, with);
			past = of.from >= to;
		}
		held -= (size_t)(line - text);
		memmove(text, line, held);
		if (past)
			break;
	}
	live_syscall(SYS_close, maps);
}

static bool is_zero(const void *page)
{
	const uint64_t *words = page;
	for (size_t i = 0; i < PAGE / sizeof *words; i++)
		if (words[i])
			return false;
	return true;
}

/* Pages of the process become pages of the file; false where that fails, and nothing has changed. */
static bool move_in(uintptr_t from, uintptr_t to, uint64_t *offset)
{
	*offset = next_offset;
	uint64_t after = (next_offset + (to - from) + GAP) & ~(GAP - 1);
	if (after > FILE_SIZE)
		return false;
	for (uintptr_t at = from; at < to;) {
		uintptr_t end = at;
		/* What was never written stays without memory. */
		while (end < to && !is_zero((const void *)end))
			end += PAGE;
		for (uintptr_t done = at; done < end;) {
			long part = live_syscall(SYS_pwrite64, file, done, end - done, *offset + (done - from));
			if (part <= 0)
				return false;
			done += (uintptr_t)part;
		}
		at = end + PAGE;
	}
	void *is = mmap((void *)from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)*offset);
	if (is == MAP_FAILED)
		return false;
	next_offset = after;
	return true;
}

struct region {
	uintptr_t from, to;
	struct mapping piece[MOST_PIECES];
	size_t count;
};

static void note(const struct mapping *of, void *with)
{
	struct region *region = with;
	if (of->kind == OTHER || region->count == MOST_PIECES)
		return;
	struct mapping *piece = &region->piece[region->count++];
	*piece = *of;
	if (piece->from < region->from) {
		piece->offset += region->from - piece->from;
		piece->from = region->from;
	}
	if (piece->to > region->to)
		piece->to = region->to;
}

static void note_shared(const struct mapping *of, void *with)
{
	if (of->kind == SHARED)
		note(of, with);
}

int live_share(uintptr_t from, size_t length, uint64_t *words, size_t *count)
{
	static struct region region;
	*count = 0;
	if (!length || from + length < from || shared_file() < 0)
		return -1;
	live_open_pages();
	region.from = from & ~(PAGE - 1);
	region.to = (from + length + PAGE - 1) & ~(PAGE - 1);
	region.count = 0;
	each_mapping(region.from, region.to, note, &region);
	for (size_t i = 0; i < region.count; i++) {
		struct mapping *piece = &region.piece[i];
		if (piece->kind == PRIVATE && !move_in(piece->from, piece->to, &piece->offset))
			continue;
		*words++ = piece->from;
		*words++ = piece->to - piece->from;
		*words++ = piece->offset;
		*count += 3;
	}
	return file;
}

static void make_private(const struct mapping *of)
{
	size_t size = of->to - of->from;
	void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return;
	memcpy(copy, (const void *)of->from, size);
	mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)of->from);
}

bool live_shares(void) { return file >= 0; }

void live_stop_sharing(void)
{
	static struct region region;
	if (file < 0)
		return;
	/* The list is read first: making a piece private changes it. */
	do {
		region.from = 0;
		region.to = UINTPTR_MAX;
		region.count = 0;
		each_mapping(0, UINTPTR_MAX, note_shared, &region);
		for (size_t i = 0; i < region.count; i++)
			make_private(&region.piece[i]);
	} while (region.count == MOST_PIECES);
	live_syscall(SYS_close, file);
	file = -1;
}
