/* The turns of a slot, and the start of a process under `fabriscope exec`. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__thread struct live_slot *live_mine __attribute__((tls_model("initial-exec")));
__thread uint64_t live_spent __attribute__((tls_model("initial-exec")));
__thread uint64_t live_shadow __attribute__((tls_model("initial-exec")));
__thread struct live_empty live_empty __attribute__((tls_model("initial-exec")));
struct live_arena *live_arena;

/* The system call itself, past whatever this library puts before it; -1 and errno as libc does. */
long live_syscall(long number, ...)
{
	SIX_ARGUMENTS(number);
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	long result = x0;
#else
#error "no system calls for this processor"
#endif
	if (result < 0 && result > -4096) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

static void give_turn(struct live_slot *slot)
{
	atomic_store(&slot->turn, TURN_FABRIC);
	if (atomic_load(&slot->fabric_sleeps))
		live_syscall(SYS_futex, &slot->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void await_turn(struct live_slot *slot)
{
	for (uint64_t look = 0; look < live_arena->spin; look++) {
		if (atomic_load_explicit(&slot->turn, memory_order_acquire) == TURN_PROGRAM)
			return;
		live_pause();
	}
	for (uint64_t look = 0; look < live_arena->yields; look++) {
		live_syscall(SYS_sched_yield);
		if (atomic_load_explicit(&slot->turn, memory_order_acquire) == TURN_PROGRAM)
			return;
	}
	const struct timespec a_second = { 1, 0 };
	atomic_store(&slot->program_sleeps, 1);
	while (atomic_load(&slot->turn) != TURN_PROGRAM) {
		long woken = live_syscall(SYS_futex, &slot->turn, FUTEX_WAIT, TURN_FABRIC, &a_second, NULL, 0);
		/* Without the fabric nothing goes on. */
		if (woken < 0 && errno == ETIMEDOUT && live_syscall(SYS_kill, live_arena->fabric, 0) < 0 && errno == ESRCH)
			live_syscall(SYS_exit_group, 137);
	}
	atomic_store(&slot->program_sleeps, 0);
}

static void put_question(struct live_slot *slot, enum live_op op, size_t length)
{
	slot->op = op;
	slot->length = (uint32_t)length;
	slot->spent = live_spent;
	give_turn(slot);
}

uint8_t *live_question(void) { return live_mine ? live_mine->data + live_mine->posts : live_real_question(); }
int64_t *live_args(void) { return live_mine ? live_mine->args : live_real_args(); }

int64_t live_ask(enum live_op op, size_t length)
{
	struct live_slot *slot = live_mine;
	int error = errno;
	if (!slot)
		return live_real_answer(op);
	live_before_question();
	if (op != OP_POLL_CQ && op != OP_LOOK)
		live_empty.count = 0;
	put_question(slot, op, length);
	await_turn(slot);
	live_spent = live_shadow = 0;
	int64_t result = slot->result;
	live_after_answer();
	live_raise_alarm();
	/* What can be interrupted is where threads are cancelled; a wait for a word may have a lock to take first. */
	if (result == -EINTR && op != OP_WAIT_WORD && op != OP_WAIT_TASK)
		pthread_testcancel();
	errno = error;
	return result;
}

/* The end of a thread has no answer: from then on its slot may be another thread's. */
void live_leave(void)
{
	struct live_slot *slot = live_mine;
	live_mine = NULL;
	live_open_pages();
	put_question(slot, OP_EXIT_THREAD, 0);
}

int64_t live_ask_with(enum live_op op, const int64_t args[8], size_t length)
{
	memcpy(live_args(), args, 8 * sizeof args[0]);
	return live_ask(op, length);
}

int64_t live_result(int64_t result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

uint64_t *live_post(size_t bytes)
{
	struct live_slot *slot = live_mine;
	if (!slot)
		return live_real_post(bytes);
	if (slot->posts + bytes > LIVE_POSTS)
		live_ask(OP_POST, 0);
	live_empty.count = 0;
	uint64_t *room = (uint64_t *)(slot->data + slot->posts);
	slot->posts += (uint32_t)bytes;
	return room;
}

void live_adopt(uint32_t index)
{
	live_mine = &live_arena->slot[index];
	live_spent = live_shadow = 0;
}

void live_await_start(void)
{
	atomic_store(&live_mine->tid, (uint32_t)live_syscall(SYS_gettid));
	await_turn(live_mine);
}

void live_hello(void)
{
	/* Which rank of a job it is, by what its launcher says. */
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID" };
	int64_t rank = -1;
	for (size_t i = 0; i < sizeof names / sizeof *names && rank < 0; i++)
		if (getenv(names[i]))
			rank = atoll(getenv(names[i]));
	int64_t count = LIVE_ASK(OP_HELLO, rank);
	int32_t known[2 * 512];
	if (count > 512)
		count = 512;
	memcpy(known, live_question(), (size_t)count * 2 * sizeof *known);
	for (int64_t i = 0; i < count; i++) {
		live_set_kind(known[2 * i], (enum live_kind)known[2 * i + 1]);
		if (live_syscall(SYS_fcntl, known[2 * i], F_GETFD, 0, 0, 0, 0) < 0)
			close(known[2 * i]);
	}
}

/* Leaves the fabric a core of its own: a turn then passes without anybody being put to sleep and woken. */
static void keep_off(uint64_t core)
{
	cpu_set_t cores;
	if (core == 0 || core > CPU_SETSIZE || live_syscall(SYS_sched_getaffinity, 0, sizeof cores, &cores) < 0)
		return;
	CPU_CLR(core - 1, &cores);
	if (CPU_COUNT(&cores) > 0)
		live_syscall(SYS_sched_setaffinity, 0, sizeof cores, &cores);
}

/* Cores of virtual hosts are virtual ones: programs that choose theirs get them all. */
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cores)
{
	return live_mine ? 0 : (int)live_syscall(SYS_sched_setaffinity, pid, size, cores);
}
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cores)
{
	REAL(pthread_setaffinity_np);
	return live_mine ? 0 : real(thread, size, cores);
}

static void refuse(const char *what)
{
	static const char before[] = "fabriscope: ";
	live_syscall(SYS_write, 2, before, sizeof before - 1);
	live_syscall(SYS_write, 2, what, strlen(what));
	live_syscall(SYS_write, 2, "\n", 1);
	live_syscall(SYS_exit_group, 126);
}

/* The first thing in the process: its slot, if `fabriscope exec` started it, or a program that it started. */
void live_start(void)
{
	static bool started;
	if (started)
		return;
	started = true;
	const char *path = getenv("FABRISCOPE_LIVE"), *slot = getenv("FABRISCOPE_LIVE_SLOT"), *real = getenv("FABRISCOPE_LIVE_REAL");
	if (real)
		live_real_start(real);
	if (!path || !slot)
		return;
	int fd = (int)live_syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return; /* the run is over */
	size_t size = sizeof(struct live_arena) + LIVE_SLOTS * sizeof(struct live_slot);
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	live_syscall(SYS_close, fd);
	if (at == MAP_FAILED)
		refuse("the memory that is shared with the fabric cannot be mapped");
	live_arena = at;
	if (live_arena->magic != LIVE_MAGIC || live_arena->slots != LIVE_SLOTS)
		refuse("this process was started by another release of fabriscope");
	uint32_t index = (uint32_t)atoi(slot), free = 0, pid = (uint32_t)live_syscall(SYS_getpid);
	if (index >= LIVE_SLOTS)
		return;
	struct live_slot *mine = &live_arena->slot[index];
	/* Whoever was started past the calls that this library sees is on its own. */
	if (!atomic_compare_exchange_strong(&mine->pid, &free, pid) && free != pid)
		return;
	keep_off(live_arena->core);
	live_adopt(index);
	live_await_start();
	live_hello();
	live_watch_clock();
	live_watch_memory();
}

__attribute__((constructor(101))) static void constructor(void) { live_start(); }
