/* Programs that wait for a byte of their memory to change, without a call.
 *
 * Nobody can see such a loop from outside but by its time: when a thread has not asked anything for a while, the fabric sends it a signal. From
 * then on the page it looks at may not be touched between questions, and each look faults. A second look from the same place at the same address
 * is a loop, and waits for a peer's write; where there was one, each look asks the fabric how far it is. Pages where nobody waits are let go. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define MOST_REGIONS 4096
#define MOST_HOT 16
/* Answers without a look after which a page is let go. */
#define PATIENCE 64
/* Looks at other places in a row after which a page is no place to wait at: before a loop was seen there, and after. */
#define FEW_MISSES 8
#define MOST_MISSES 256
/* The signal of the fabric: Linux raises it nowhere. */
#define WATCH_SIGNAL SIGSTKFLT

struct region {
	uintptr_t from, to;
};
struct hot {
	uintptr_t page;
	unsigned patience, misses;
	bool waited; /* a loop was seen there */
};

/* One thread of a process runs at a time: between questions nobody else touches these. */
static struct region regions[MOST_REGIONS];
static size_t region_count;
static struct hot hot[MOST_HOT];
static size_t hot_count;
static bool all_guarded, hot_guarded;
static uintptr_t last_place, last_address;
static struct sigaction of_program[2]; /* SIGSEGV, SIGTRAP */
/* This library is at work: it guards and opens pages itself. */
static __thread volatile int inside __attribute__((tls_model("initial-exec")));

static void protect(uintptr_t from, uintptr_t to, int how)
{
	from &= ~(PAGE - 1);
	to = (to + PAGE - 1) & ~(PAGE - 1);
	live_syscall(SYS_mprotect, from, to - from, how, 0, 0, 0);
}

static void set_all(int how)
{
	for (size_t i = 0; i < region_count; i++)
		protect(regions[i].from, regions[i].to, how);
	all_guarded = how == PROT_NONE;
}

static void set_hot(int how)
{
	for (size_t i = 0; i < hot_count; i++)
		protect(hot[i].page, hot[i].page + PAGE, how);
	hot_guarded = how == PROT_NONE && hot_count > 0;
}

static void open_up(void)
{
	if (all_guarded)
		set_all(PROT_READ | PROT_WRITE);
	if (hot_guarded)
		set_hot(PROT_READ | PROT_WRITE);
}

void live_open_pages(void) { open_up(); }

void live_before_question(void)
{
	inside++;
	open_up();
}

void live_after_answer(void)
{
	inside--;
	size_t kept = 0;
	for (size_t i = 0; i < hot_count; i++)
		if (hot[i].patience-- > 0)
			hot[kept++] = hot[i];
	hot_count = kept;
	last_place = 0;
	if (hot_count)
		set_hot(PROT_NONE);
}

/* Whether memory is on the stack of this thread, where the kernel puts signals: that must stay open. */
static bool is_on_stack(uintptr_t from, uintptr_t to)
{
	pthread_attr_t attributes;
	void *lowest = NULL;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return false;
	pthread_attr_getstack(&attributes, &lowest, &size);
	pthread_attr_destroy(&attributes);
	return from < (uintptr_t)lowest + size && to > (uintptr_t)lowest;
}

void live_guard(uintptr_t from, size_t length)
{
	if (length && region_count < MOST_REGIONS && !is_on_stack(from, from + length))
		regions[region_count++] = (struct region){ from, from + length };
}

void live_unguard(uintptr_t from, size_t length)
{
	inside++;
	open_up();
	for (size_t i = 0; i < region_count; i++)
		if (regions[i].from == from && regions[i].to == from + length) {
			regions[i] = regions[--region_count];
			break;
		}
	hot_count = 0;
	inside--;
}

static struct hot *hot_at(uintptr_t address)
{
	for (size_t i = 0; i < hot_count; i++)
		if (hot[i].page == (address & ~(PAGE - 1)))
			return &hot[i];
	return NULL;
}

static bool is_guarded(uintptr_t address)
{
	if (hot_guarded && hot_at(address))
		return true;
	/* Guarded pages may hold more than the region. */
	for (size_t i = 0; all_guarded && i < region_count; i++)
		if (address >= (regions[i].from & ~(PAGE - 1)) && address < ((regions[i].to + PAGE - 1) & ~(PAGE - 1)))
			return true;
	return false;
}

static void step_once(void *context, bool on)
{
#if defined(__x86_64__)
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
	*flags = on ? *flags | 0x100 : *flags & ~0x100;
#else
	(void)context, (void)on;
#endif
}

static uintptr_t place_of(void *context)
{
#if defined(__x86_64__)
	return (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#endif
}

/* Once for each instruction that touches a guarded page. */
static void looked(uintptr_t address, void *context)
{
	bool first = all_guarded;
	uintptr_t place = place_of(context);
	bool again = place == last_place && address == last_address;
	open_up();
	struct hot *page = hot_at(address);
	if (!page && first) {
		/* What the thread touches first may be what it waits for. */
		if (hot_count == MOST_HOT)
			hot_count = 0;
		page = &hot[hot_count++];
		*page = (struct hot){ .page = address & ~(PAGE - 1), .misses = 0, .waited = false, .patience = PATIENCE };
	}
	if (page && again) {
		page->waited = true;
		page->misses = 0;
	} else if (page && ++page->misses > (page->waited ? MOST_MISSES : FEW_MISSES)) {
		/* It works there, and waits for nothing. */
		*page = hot[--hot_count];
		page = NULL;
	}
	if (page && page->waited) {
		LIVE_ASK(OP_LOOK, (int64_t)address, again);
		open_up();
		page = hot_at(address);
		if (page)
			page->patience = PATIENCE;
	}
	last_place = place;
	last_address = address;
#if defined(__x86_64__)
	/* Until the one instruction is done. */
	inside++;
#endif
	step_once(context, true);
}

static void pass_on(int signal, siginfo_t *info, void *context, const struct sigaction *to)
{
	if (to->sa_flags & SA_SIGINFO && to->sa_sigaction) {
		to->sa_sigaction(signal, info, context);
	} else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
		to->sa_handler(signal);
	} else {
		struct {
			void *handler;
			unsigned long flags;
			void *restorer;
			uint64_t mask;
		} none = { 0 };
		live_syscall(SYS_rt_sigaction, signal, &none, NULL, 8);
		/* A fault comes again by itself; what somebody sent does not. */
		if (info->si_code <= 0)
			live_syscall(SYS_tgkill, live_syscall(SYS_getpid), live_syscall(SYS_gettid), signal);
	}
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int error = errno;
	inside++;
	uintptr_t address = (uintptr_t)info->si_addr;
	bool ours = live_answer_tsc(info, context);
	if (!ours && info->si_code == SEGV_ACCERR && is_guarded(address)) {
		if (live_mine)
			looked(address, context);
		else
			open_up(); /* a thread that has left, or was never known: it waits for nobody */
		ours = true;
	}
	inside--;
	errno = error;
	if (!ours)
		pass_on(signal, info, context, &of_program[0]);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
	if (!live_mine || info->si_code != TRAP_TRACE) {
		pass_on(signal, info, context, &of_program[1]);
		return;
	}
	step_once(context, false);
	if (hot_count)
		set_hot(PROT_NONE);
	inside--;
}

/* The system call that a signal came in the middle of, and that begins again after it; -1 if there is none. `arguments` get the first three. */
static long interrupted_call(void *context, uintptr_t arguments[3])
{
	mcontext_t *at = &((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
	const uint8_t *code = (const uint8_t *)at->gregs[REG_RIP];
	if (code[0] != 0x0f || code[1] != 0x05)
		return -1;
	arguments[0] = (uintptr_t)at->gregs[REG_RDI];
	arguments[1] = (uintptr_t)at->gregs[REG_RSI];
	arguments[2] = (uintptr_t)at->gregs[REG_RDX];
	return (long)at->gregs[REG_RAX];
#else
	uint32_t code;
	memcpy(&code, (const void *)at->pc, sizeof code);
	if (code != 0xd4000001) /* svc 0 */
		return -1;
	memcpy(arguments, at->regs, 3 * sizeof *arguments);
	return (long)at->regs[8];
#endif
}

/* libc reads and writes its streams past the calls that this library sees. Where the other end of a pipe is a process of the run, that one has to
 * get its turn: what is waited for is waited for in virtual time, and then the call goes on by itself. */
static void wait_instead(void *context)
{
	uintptr_t arguments[3];
	int error = errno;
	switch (interrupted_call(context, arguments)) {
	case SYS_read:
	case SYS_readv:
		live_await_kernel((int)arguments[0], POLLIN);
		break;
	case SYS_write:
	case SYS_writev:
		live_await_kernel((int)arguments[0], POLLOUT);
		break;
	case SYS_wait4:
		live_await_child((int)arguments[0], (int)arguments[2]);
		break;
	}
	errno = error;
}

static void on_watch(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	if (!live_mine || inside)
		return;
	wait_instead(context);
	if (region_count)
		set_all(PROT_NONE);
}

int __sigaction(int signal, const struct sigaction *set, struct sigaction *old);

static void install(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction how = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
	sigemptyset(&how.sa_mask);
	__sigaction(signal, &how, NULL);
}

void live_watch_memory(void)
{
	if (!live_mine)
		return;
	install(SIGSEGV, on_fault);
	install(SIGTRAP, on_step);
	install(WATCH_SIGNAL, on_watch);
}

/* Programs keep their handlers, behind ours. */
int sigaction(int signal, const struct sigaction *set, struct sigaction *old)
{
	if (!live_mine || (signal != SIGSEGV && signal != SIGTRAP && signal != WATCH_SIGNAL))
		return __sigaction(signal, set, old);
	struct sigaction *slot = &of_program[signal == SIGTRAP], before = *slot;
	if (set && signal != WATCH_SIGNAL)
		*slot = *set;
	if (old)
		*old = before;
	return 0;
}

sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction set = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;
	sigemptyset(&set.sa_mask);
	return sigaction(number, &set, &old) ? SIG_ERR : old.sa_handler;
}
