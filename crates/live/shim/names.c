/* Names of virtual hosts, and the files that tell programs about the machine. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "real.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The address of a host of the run; 0 if there is none of that name. An empty name is this host's, whose name comes back. */
static uint32_t ask_name(const char *name)
{
	size_t length = name ? strlen(name) + 1 : 1;
	if (live_real)
		return real_address_of(name);
	if (!live_mine || length > 256)
		return 0;
	memcpy(live_question(), name ? name : "", length);
	int64_t found = live_ask(OP_RESOLVE, length);
	return found > 0 ? (uint32_t)found : 0;
}

uint32_t live_own_address(void) { return ask_name(NULL); }

int gethostname(char *name, size_t size)
{
	struct utsname real;
	if (live_real) {
		snprintf(name, size, "%s", real_own_name());
		return 0;
	}
	if (!live_mine) {
		if (live_syscall(SYS_uname, &real, 0, 0, 0, 0, 0) < 0)
			return -1;
		snprintf(name, size, "%s", real.nodename);
		return 0;
	}
	ask_name(NULL);
	snprintf(name, size, "%s", (const char *)live_question());
	return 0;
}

int uname(struct utsname *of)
{
	if (live_syscall(SYS_uname, of, 0, 0, 0, 0, 0) < 0)
		return -1;
	return live_answers() ? gethostname(of->nodename, sizeof of->nodename) : 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	REAL(getaddrinfo);
	uint32_t host = node ? ask_name(node) : 0;
	struct addrinfo how = hints ? *hints : (struct addrinfo){ 0 };
	how.ai_flags &= ~AI_ADDRCONFIG;
	if (!live_answers())
		return real(node, service, hints, result);
	if (!host)
		return real(node, service, &how, result);
	char text[64];
	struct in_addr address = { htonl(host) };
	bool six = how.ai_family == AF_INET6;
	snprintf(text, sizeof text, "%s%s", six ? "::ffff:" : "", inet_ntoa(address));
	return real(text, service, &how, result);
}

struct hostent *gethostbyname(const char *name)
{
	static struct in_addr address;
	static char *list[] = { (char *)&address, NULL }, *none[] = { NULL }, kept[256];
	static struct hostent entry;
	uint32_t host = ask_name(name);
	if (!host && live_real) {
		REAL(gethostbyname);
		return real(name);
	}
	if (!host && inet_pton(AF_INET, name, &address) != 1) {
		h_errno = HOST_NOT_FOUND;
		return NULL;
	}
	if (host)
		address.s_addr = htonl(host);
	snprintf(kept, sizeof kept, "%s", name);
	entry = (struct hostent){ .h_name = kept, .h_aliases = none, .h_addrtype = AF_INET, .h_length = 4, .h_addr_list = list };
	return &entry;
}

/* ---- files: those below the folder of the host come before those of the machine ---- */

static const char *redirected(const char *path, char *room, size_t size)
{
	static const char *const of_host[] = { "/proc/cpuinfo", "/etc/hosts", "/etc/hostname", "/sys/class/infiniband", "/dev/infiniband",
					  "/sys/class/misc/rdma_cm", "/sys/class/infiniband_mad",
					  /* what OpenSM remembers of fabrics */
					  "/var/cache/opensm" };
	const char *folder = live_answers() ? getenv("FABRISCOPE_LIVE_HOST") : NULL;
	/* In real time the processor is the machine's. */
	for (size_t i = live_real; folder && path && i < sizeof of_host / sizeof *of_host; i++)
		if (!strncmp(path, of_host[i], strlen(of_host[i]))) {
			snprintf(room, size, "%s%s", folder, path);
			return room;
		}
	return path;
}

#define ROOM char room[4096]
#define OF_HOST(path) redirected((path), room, sizeof room)

FILE *fopen(const char *path, const char *mode)
{
	REAL(fopen);
	ROOM;
	return real(OF_HOST(path), mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

/* What manages connections and the subnet is in virtual time only: programs hear that there is no such device. */
static bool is_absent(const char *path)
{
	return live_real && (!strcmp(path, "/dev/infiniband/rdma_cm") || !strncmp(path, "/dev/infiniband/umad", 20));
}

int open(const char *path, int flags, ...)
{
	ROOM;
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	if (is_absent(path))
		return errno = ENODEV, -1;
	int fd = (int)live_syscall(SYS_openat, AT_FDCWD, OF_HOST(path), flags, mode, 0, 0);
	if (live_is_management(path))
		return live_open_management(fd, path);
	return live_is_connection_manager(path) ? live_open_connections(fd) : fd;
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open(path, flags); }

int openat(int folder, const char *path, int flags, ...)
{
	ROOM;
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	return (int)live_syscall(SYS_openat, folder, OF_HOST(path), flags, mode, 0, 0);
}
int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

int access(const char *path, int how)
{
	ROOM;
	return (int)live_syscall(SYS_faccessat, AT_FDCWD, OF_HOST(path), how, 0, 0, 0);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict of, int flags)
{
	ROOM;
	return (int)live_syscall(SYS_newfstatat, folder, OF_HOST(path), of, flags, 0, 0);
}
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict of, int flags) __attribute__((alias("fstatat")));
int stat(const char *restrict path, struct stat *restrict of) { return fstatat(AT_FDCWD, path, of, 0); }
int stat64(const char *restrict path, struct stat64 *restrict of) __attribute__((alias("stat")));
int lstat(const char *restrict path, struct stat *restrict of) { return fstatat(AT_FDCWD, path, of, AT_SYMLINK_NOFOLLOW); }
int lstat64(const char *restrict path, struct stat64 *restrict of) __attribute__((alias("lstat")));

int rename(const char *from, const char *to)
{
	char here[4096], there[4096];
	return (int)live_syscall(SYS_renameat2, AT_FDCWD, redirected(from, here, sizeof here), AT_FDCWD, redirected(to, there, sizeof there), 0, 0);
}

ssize_t readlink(const char *restrict path, char *restrict text, size_t size)
{
	ROOM;
	return live_syscall(SYS_readlinkat, AT_FDCWD, OF_HOST(path), text, size, 0, 0);
}

DIR *opendir(const char *path)
{
	REAL(opendir);
	ROOM;
	return real(OF_HOST(path));
}

int scandir(const char *restrict path, struct dirent ***restrict list, int (*wanted)(const struct dirent *),
	    int (*order)(const struct dirent **, const struct dirent **))
{
	REAL(scandir);
	ROOM;
	return real(OF_HOST(path), list, wanted, order);
}
int scandir64(const char *restrict path, struct dirent64 ***restrict list, int (*wanted)(const struct dirent64 *),
	      int (*order)(const struct dirent64 **, const struct dirent64 **)) __attribute__((alias("scandir")));

char *realpath(const char *restrict path, char *restrict text)
{
	static char *(*real)(const char *, char *);
	ROOM;
	if (!real)
		real = (char *(*)(const char *, char *))dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
	if (!real)
		real = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
	return real(OF_HOST(path), text);
}
