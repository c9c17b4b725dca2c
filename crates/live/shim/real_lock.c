/* Who works for the adapter of a process: the program while it polls, a thread of ours while it does not.
 *
 * A program that polls sees what comes at once, and nobody has to wake it: it says so (`asleep` is 0), and the thread only looks now and then
 * whether that is still true. Otherwise the thread sleeps until a peer wakes it, or until time alone makes something happen. */
#define _GNU_SOURCE
#include "real.h"
#include "parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Tries before others are let run: whoever has the lock may have lost its core. */
#define TRIES 64
/* How long a program may not have polled before the thread takes over, in ns. Basis: assumed; two wake-ups a millisecond cost no core. */
#define TICK_NS 1000000
/* Nobody tells the thread that a program posted: for how long it sleeps at the most, in ns, before it looks which peers are late. */
#define LONGEST_NS 20000000u
/* Rounds of the thread between looks at the launcher. */
#define LOOKS 16
/* Rounds without anything in which the thread goes on before it sleeps: whoever asks once mostly asks again. */
#define LINGER 20
/* Polls after which a program that has asked for an event is believed to wait by polling. Basis: assumed. */
#define FEW 16
/* How long a program that polls without finding anything is kept at the most, in ns: others run in the meantime. Basis: assumed. */
#define KEPT_NS 50000

static _Atomic uint32_t held;
static bool claimed;       /* the program polls */
static uint32_t polls, since_armed;
static _Atomic uint32_t ticking; /* the thread waits for a tick; a futex */

void real_lock(void)
{
	for (uint32_t tries = 1; atomic_exchange_explicit(&held, 1, memory_order_acquire); tries++) {
		while (atomic_load_explicit(&held, memory_order_relaxed) && tries++ % TRIES)
			live_pause();
		if (tries % TRIES == 0)
			live_syscall(SYS_sched_yield);
	}
}
void real_unlock(void) { atomic_store_explicit(&held, 0, memory_order_release); }

/* In a child of fork: its parent's threads are not there. */
void real_forget_lock(void) { held = 0; }

static void wake(_Atomic uint32_t *word) { live_syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

void real_wake(uint32_t process)
{
	_Atomic uint32_t *asleep = &real_adapter.fabric->process[process].asleep;
	/* What was written before is seen by whoever is seen awake here. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(asleep, memory_order_relaxed) && atomic_exchange(asleep, 0))
		wake(asleep);
}

void real_polls(void)
{
	polls++;
	/* Who takes what an event told of polls only a few times before it waits for the next. */
	if (claimed || (real_adapter.armed && ++since_armed < FEW))
		return;
	claimed = true;
	atomic_store(&real_adapter.me->asleep, 0);
	/* From now on the thread looks whether the program still polls. */
	wake(&real_adapter.me->asleep);
}

/* Waits for a word of this process to become another; not with the lock. */
static void await(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	const struct timespec how = { 0, (long)(ns < LONGEST_NS ? ns : LONGEST_NS) };
	live_syscall(SYS_futex, word, FUTEX_WAIT, value, &how, NULL, 0);
}

/* Two that talk to each other and are on the same core take turns there until the kernel moves one of them, which it may never do: then the one
 * with the lower number goes to any other core that it may use. */
static void keep_apart(void)
{
	cpu_set_t allowed, others;
	uint32_t core = (uint32_t)sched_getcpu() + 1;
	bool shared = false;
	if (atomic_load_explicit(&real_adapter.me->core, memory_order_relaxed) != core)
		atomic_store(&real_adapter.me->core, core);
	for (uint32_t peer = real_adapter.number + 1; peer < MOST_PROCESSES && !shared; peer++)
		shared = real_adapter.to[peer].ring && atomic_load(&real_adapter.fabric->process[peer].core) == core;
	if (!shared || live_syscall(SYS_sched_getaffinity, 0, sizeof allowed, &allowed) < 0)
		return;
	others = allowed;
	CPU_CLR(core - 1, &others);
	if (!CPU_COUNT(&others) || live_syscall(SYS_sched_setaffinity, 0, sizeof others, &others) < 0)
		return;
	live_syscall(SYS_sched_setaffinity, 0, sizeof allowed, &allowed);
}

/* The program has polled for long without finding anything: it gives up its core until something comes, or for a while; `shortly`, only to
 * who wants it now. */
void real_rest(bool shortly)
{
	_Atomic uint32_t *asleep = &real_adapter.me->asleep;
	if (shortly) {
		keep_apart();
		real_look_at_clock();
		real_unlock();
		live_syscall(SYS_sched_yield);
		real_lock();
		return;
	}
	atomic_store(asleep, 1);
	if (!real_progress()) {
		real_look_at_clock();
		real_unlock();
		await(asleep, 1, KEPT_NS);
		real_lock();
	}
	if (claimed)
		atomic_store(asleep, 0);
}

void real_hand_over(void)
{
	claimed = false;
	since_armed = 0;
	atomic_store(&real_adapter.me->asleep, 1);
	real_progress();
	if (atomic_exchange(&ticking, 0))
		wake(&ticking);
}

bool real_progress(void)
{
	bool found = real_drain();
	for (struct qp *qp = real_adapter.busy, *next; qp; qp = next) {
		next = qp->busy_next;
		real_hear(qp);
	}
	if (atomic_load_explicit(&real_adapter.me->attention, memory_order_relaxed))
		real_look_for_broken();
	if (!found)
		real_pay();
	return found;
}

uint64_t real_look_at_clock(void)
{
	uint64_t first = UINT64_MAX, now = real_adapter.busy ? live_real_ns() : 0;
	for (struct qp *qp = real_adapter.busy, *next; qp; qp = next) {
		next = qp->busy_next;
		uint64_t due = real_clock_of(qp, now);
		first = due < first ? due : first;
	}
	return first;
}

/* Works until nothing is left to do; gives for how long there will not be, in ns. */
static uint64_t take_over(void)
{
	uint64_t due = UINT64_MAX;
	for (int idle = 0; idle < LINGER; idle++) {
		real_lock();
		/* The place of a process that has left may be another's. */
		if ((idle && claimed) || !real_adapter.joined) {
			real_unlock();
			return 0;
		}
		claimed = false;
		atomic_store(&real_adapter.me->asleep, 1);
		if (real_progress())
			idle = 0;
		due = real_look_at_clock();
		real_unlock();
		live_pause();
	}
	uint64_t now = due == UINT64_MAX ? 0 : live_real_ns();
	return due > now ? due - now : 0;
}

static void *work(void *unused)
{
	(void)unused;
	uint32_t seen = polls;
	for (uint32_t round = 1; real_adapter.joined; round++) {
		/* Without the launcher nothing goes on. */
		if (round % LOOKS == 0 && !real_has_memory((pid_t)real_adapter.directory->launcher))
			live_syscall(SYS_exit_group, 137);
		if (claimed && polls != seen) {
			seen = polls;
			atomic_store(&ticking, 1);
			await(&ticking, 1, TICK_NS);
		} else {
			await(&real_adapter.me->asleep, 1, take_over());
		}
	}
	return NULL;
}

/* Signals are the program's. */
void real_begin_thread(void)
{
	REAL(pthread_create);
	sigset_t all, before;
	pthread_t thread;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	claimed = false;
	if (real(&thread, NULL, work, NULL) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
