/* Processes: each is known to the fabric from its first moment to its last.
 *
 * A child begins when the fabric lets it: the parent goes on first. What a process is called is its number in the run, so that what programs make
 * of it is the same in the next. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The process says how it ended, unless it was killed. */
static void say_goodbye(int status)
{
	live_real_end();
	if (!live_mine)
		return;
	LIVE_ASK(OP_EXIT_PROCESS, status);
	live_unwatch_clock();
	live_mine = NULL;
}

void _exit(int status)
{
	say_goodbye(status);
	for (;;)
		live_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}
void _Exit(int status) { _exit(status); }

static void at_end(int status, void *unused)
{
	(void)unused;
	fflush(NULL);
	say_goodbye(status);
}

__attribute__((constructor(102))) static void remember_end(void)
{
	if (live_mine)
		on_exit(at_end, NULL);
}

pid_t getpid(void) { return live_mine ? (pid_t)live_mine->number : (pid_t)live_syscall(SYS_getpid); }
/* The first thread of a process is called like it; the others by their slots, above all processes. */
#define FIRST_THREAD 30000
int live_thread_number(void)
{
	bool first = live_mine->tid == atomic_load(&live_mine->pid);
	return first ? (int)live_mine->number : FIRST_THREAD + (int)(live_mine - live_arena->slot);
}
pid_t gettid(void) { return live_mine ? live_thread_number() : (pid_t)live_syscall(SYS_gettid); }

/* Programs that draw lots decide by them who begins: the lots of a process are those of its number. The generator is SplitMix64. */
void live_random(void *bytes, size_t size)
{
	static uint64_t drawn;
	for (size_t at = 0; at < size; at += 8) {
		uint64_t word = ((uint64_t)live_mine->number << 32) + ++drawn * 0x9e3779b97f4a7c15ull;
		word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
		word = (word ^ word >> 27) * 0x94d049bb133111ebull;
		word ^= word >> 31;
		memcpy((char *)bytes + at, &word, size - at < 8 ? size - at : 8);
	}
}
ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
	if (!live_mine)
		return live_syscall(SYS_getrandom, bytes, size, flags, 0, 0, 0);
	live_random(bytes, size);
	return (ssize_t)size;
}
int getentropy(void *bytes, size_t size)
{
	if (size > 256)
		return errno = EIO, -1;
	return getrandom(bytes, size, 0) < 0 ? -1 : 0;
}

pid_t getppid(void)
{
	return live_mine && live_mine->parent ? (pid_t)live_mine->parent : (pid_t)live_syscall(SYS_getppid);
}

/* What the operating system calls a process of the run; itself where the run does not know it. */
static pid_t real_pid(pid_t number)
{
	if (!live_mine || number <= 0)
		return number;
	int64_t pid = LIVE_ASK(OP_REAL_PID, number);
	return pid > 0 ? (pid_t)pid : number;
}

int kill(pid_t number, int signal)
{
	if (live_mine && number > 0 && number != getpid()) {
		int64_t result = LIVE_ASK(OP_KILL, number, signal);
		if (result != -ESRCH)
			return (int)live_result(result);
	}
	pid_t pid = number < -1 ? -real_pid(-number) : real_pid(number);
	return (int)live_syscall(SYS_kill, pid, signal, 0, 0, 0, 0);
}
pid_t getpgid(pid_t number) { return (pid_t)live_syscall(SYS_getpgid, real_pid(number), 0, 0, 0, 0, 0); }
int setpgid(pid_t number, pid_t group) { return (int)live_syscall(SYS_setpgid, real_pid(number), real_pid(group), 0, 0, 0, 0); }

pid_t fork(void)
{
	REAL(fork);
	if (!live_mine)
		return real();
	int64_t slot = LIVE_ASK(OP_NEW_PROCESS);
	if (slot < 0)
		return errno = EAGAIN, -1;
	pid_t number = (pid_t)live_mine->args[0], pid = real();
	if (pid < 0) {
		int error = errno;
		LIVE_ASK(OP_NOT_BEGUN, slot);
		errno = error;
	}
	if (pid == 0) {
		live_stop_sharing();
		live_adopt((uint32_t)slot);
		atomic_store(&live_mine->pid, (uint32_t)live_syscall(SYS_getpid));
		live_await_start();
		live_hello();
	}
	/* What the child gets is what there was when it was made: nothing is written before it has its own. */
	siginfo_t ended = { 0 };
	while (pid > 0 && live_shares() && !atomic_load(&live_arena->slot[slot].tid) && ended.si_pid == 0) {
		live_syscall(SYS_sched_yield);
		live_syscall(SYS_waitid, P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT, NULL);
	}
	return pid > 0 ? number : pid;
}
pid_t vfork(void) { return fork(); }

/* ---- becoming another program ---- */

static const char *const carried[] = { "LD_PRELOAD", "FABRISCOPE_LIVE", "FABRISCOPE_LIVE_HOST", "FABRISCOPE_LIVE_SLOT" };
#define CARRIED (sizeof carried / sizeof *carried)

static bool is_named(const char *entry, const char *name)
{
	size_t length = strlen(name);
	return !strncmp(entry, name, length) && entry[length] == '=';
}

/* The environment for a program that takes over a slot; whatever the caller left out of it, the stand-in is loaded. */
static char **environment(char *const given[], uint32_t slot)
{
	size_t count = 0, used = 0;
	while (given && given[count])
		count++;
	char **made = malloc((count + CARRIED + 1) * sizeof *made);
	if (!made)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		bool skip = false;
		for (size_t c = 0; c < CARRIED; c++)
			skip |= is_named(given[i], carried[c]);
		if (!skip)
			made[used++] = given[i];
	}
	for (size_t c = 0; c < CARRIED; c++) {
		const char *value = getenv(carried[c]);
		char *entry = NULL;
		if (c == CARRIED - 1) {
			if (asprintf(&entry, "%s=%u", carried[c], slot) < 0)
				entry = NULL;
		} else if (value && asprintf(&entry, "%s=%s", carried[c], value) < 0) {
			entry = NULL;
		}
		if (entry)
			made[used++] = entry;
	}
	made[used] = NULL;
	return made;
}

static void drop_environment(char **made)
{
	for (size_t i = 0; made && made[i]; i++)
		for (size_t c = 0; c < CARRIED; c++)
			if (is_named(made[i], carried[c]))
				free(made[i]);
	free(made);
}

static uint32_t own_slot(void) { return (uint32_t)(live_mine - live_arena->slot); }

int execve(const char *path, char *const words[], char *const variables[])
{
	if (!live_mine)
		return (int)live_syscall(SYS_execve, path, words, variables, 0, 0, 0);
	char **with = environment(variables, own_slot());
	/* The loader reads the time stamp counter itself. */
	live_unwatch_clock();
	int result = (int)live_syscall(SYS_execve, path, words, with ? with : variables, 0, 0, 0);
	int error = errno;
	live_watch_clock();
	drop_environment(with);
	errno = error;
	return result;
}

static int search(const char *name, char *const words[], char *const variables[])
{
	if (strchr(name, '/'))
		return execve(name, words, variables);
	const char *folders = getenv("PATH");
	char path[4096];
	int error = ENOENT;
	for (const char *at = folders ? folders : "/bin:/usr/bin"; *at;) {
		size_t length = strcspn(at, ":");
		snprintf(path, sizeof path, "%.*s%s%s", (int)length, at, length ? "/" : "", name);
		execve(path, words, variables);
		if (errno != ENOENT && errno != ENOTDIR)
			error = errno;
		at += length + (at[length] == ':');
	}
	errno = error;
	return -1;
}

int execv(const char *path, char *const words[]) { return execve(path, words, environ); }
int execvp(const char *name, char *const words[]) { return search(name, words, environ); }
int execvpe(const char *name, char *const words[], char *const variables[]) { return search(name, words, variables); }

/* The words of execl, up to their end. */
#define GATHER(first)                                                   \
	const char *words[1024];                                        \
	size_t count = 0;                                               \
	va_list list;                                                   \
	va_start(list, first);                                          \
	words[count++] = first;                                         \
	while (words[count - 1] && count < 1023)                        \
		words[count++] = va_arg(list, const char *);            \
	words[count] = NULL

int execl(const char *path, const char *first, ...)
{
	GATHER(first);
	va_end(list);
	return execve(path, (char *const *)words, environ);
}
int execlp(const char *name, const char *first, ...)
{
	GATHER(first);
	va_end(list);
	return search(name, (char *const *)words, environ);
}
int execle(const char *path, const char *first, ...)
{
	GATHER(first);
	char *const *variables = va_arg(list, char *const *);
	va_end(list);
	return execve(path, (char *const *)words, variables);
}

typedef int spawner(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);

static int spawn(const char *call, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
		 char *const words[], char *const variables[])
{
	spawner *real = (spawner *)dlsym(RTLD_NEXT, call);
	if (!live_mine)
		return real(pid, path, actions, attr, words, variables);
	int64_t slot = LIVE_ASK(OP_NEW_PROCESS);
	if (slot < 0)
		return EAGAIN;
	pid_t number = (pid_t)live_mine->args[0];
	char **with = environment(variables ? variables : environ, (uint32_t)slot);
	live_unwatch_clock();
	int error = real(pid, path, actions, attr, words, with);
	live_watch_clock();
	drop_environment(with);
	if (!error && pid)
		*pid = number;
	if (error)
		LIVE_ASK(OP_NOT_BEGUN, slot);
	return error;
}
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const words[],
		char *const variables[])
{
	return spawn("posix_spawn", pid, path, actions, attr, words, variables);
}
int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const words[],
		 char *const variables[])
{
	return spawn("posix_spawnp", pid, name, actions, attr, words, variables);
}

/* ---- waiting for children ---- */

pid_t wait4(pid_t number, int *status, int options, struct rusage *usage)
{
	if (!live_mine)
		return (pid_t)live_syscall(SYS_wait4, number, status, options, usage, 0, 0);
	int64_t found = LIVE_ASK(OP_WAIT_CHILD, number, options);
	if (found == -ECHILD) /* one that the run does not know */
		return (pid_t)live_syscall(SYS_wait4, number, status, options, usage, 0, 0);
	if (found <= 0)
		return (pid_t)live_result(found);
	int how = 0;
	live_syscall(SYS_wait4, live_mine->args[0], &how, 0, usage, 0, 0);
	if (status)
		*status = how;
	return (pid_t)found;
}
pid_t waitpid(pid_t number, int *status, int options) { return wait4(number, status, options, NULL); }
pid_t wait(int *status) { return wait4(-1, status, 0, NULL); }
pid_t wait3(int *status, int options, struct rusage *usage) { return wait4(-1, status, options, usage); }

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	if (!live_mine || type == P_PGID || options & WNOWAIT)
		return (int)live_syscall(SYS_waitid, type, id, info, options, NULL, 0);
	int status;
	pid_t found = wait4(type == P_ALL ? -1 : (pid_t)id, &status, options & WNOHANG, NULL);
	if (found < 0)
		return -1;
	if (info) {
		memset(info, 0, sizeof *info);
		if (found > 0) {
			info->si_pid = found;
			info->si_signo = SIGCHLD;
			info->si_code = WIFEXITED(status) ? CLD_EXITED : CLD_KILLED;
			info->si_status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
		}
	}
	return 0;
}

int system(const char *command)
{
	if (!command)
		return 1;
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	int status = -1;
	if (child > 0 && waitpid(child, &status, 0) < 0)
		status = -1;
	return status;
}

/* What it starts is on its own. */
FILE *popen(const char *command, const char *mode)
{
	REAL(popen);
	bool watched = live_mine != NULL;
	live_unwatch_clock();
	FILE *file = real(command, mode);
	if (watched)
		live_watch_clock();
	return file;
}
