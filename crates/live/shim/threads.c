/* Threads, and what they wait for each other with: one of them runs at a time, and a wait is a question. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ll
/* Who waits for memory that another process may change looks again after so much. */
#define LOOK_AGAIN_NS 1000000ll
#define MOST_THREADS 512

/* Tries until a lock is free; gives the error number of `try`. */
#define ACQUIRE(try, lock)                                                   \
	({                                                                   \
		int error;                                                   \
		while ((error = try(lock)) == EBUSY)                         \
			wait_word(lock, LOOK_AGAIN_NS);                      \
		error;                                                       \
	})

struct beginning {
	void *(*main)(void *);
	void *argument;
	uint32_t slot;
};

static struct {
	pthread_t thread;
	uint32_t slot;
	int64_t serial; /* slots are taken again */
	bool known;
} threads[MOST_THREADS];

static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *unused)
{
	(void)unused;
	if (live_mine)
		live_leave();
}
static void make_key(void) { pthread_key_create(&ending, end_thread); }

static void *begin_thread(void *argument)
{
	struct beginning how = *(struct beginning *)argument;
	free(argument);
	live_adopt(how.slot);
	live_await_start();
	pthread_setspecific(ending, live_mine);
	return how.main(how.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *argument)
{
	REAL(pthread_create);
	if (!live_mine)
		return real(thread, attr, main, argument);
	pthread_once(&once, make_key);
	int64_t slot = LIVE_ASK(OP_NEW_THREAD), serial = live_mine->args[1];
	struct beginning *how = malloc(sizeof *how);
	if (slot >= 0 && !how)
		LIVE_ASK(OP_NOT_BEGUN, slot);
	if (slot < 0 || !how)
		return EAGAIN;
	*how = (struct beginning){ main, argument, (uint32_t)slot };
	atomic_store(&live_arena->slot[slot].pid, atomic_load(&live_mine->pid));
	live_arena->slot[slot].number = live_mine->number;
	int error = real(thread, attr, begin_thread, how);
	if (error) {
		free(how);
		LIVE_ASK(OP_NOT_BEGUN, slot);
	}
	for (size_t i = 0; !error && i < MOST_THREADS; i++)
		if (!threads[i].known) {
			threads[i].thread = *thread;
			threads[i].slot = (uint32_t)slot;
			threads[i].serial = serial;
			threads[i].known = true;
			break;
		}
	return error;
}

int pthread_join(pthread_t thread, void **result)
{
	REAL(pthread_join);
	for (size_t i = 0; live_mine && i < MOST_THREADS; i++)
		if (threads[i].known && pthread_equal(threads[i].thread, thread)) {
			while (LIVE_ASK(OP_WAIT_TASK, threads[i].slot, threads[i].serial) == -EINTR)
				pthread_testcancel();
			threads[i].known = false;
			break;
		}
	return real(thread, result);
}

/* The wait of another thread ends with EINTR, if it is one that signals end. */
static void interrupt(pthread_t thread)
{
	for (size_t i = 0; live_mine && i < MOST_THREADS; i++)
		if (threads[i].known && pthread_equal(threads[i].thread, thread)) {
			LIVE_ASK(OP_INTERRUPT, threads[i].slot, threads[i].serial);
			break;
		}
}
int pthread_cancel(pthread_t thread)
{
	REAL(pthread_cancel);
	int error = real(thread);
	if (!error)
		interrupt(thread);
	return error;
}
int pthread_kill(pthread_t thread, int signal)
{
	REAL(pthread_kill);
	int error = real(thread, signal);
	if (!error && signal)
		interrupt(thread);
	return error;
}

/* ---- words that threads wait for ---- */

/* How many wait for words with this hash: who changes a word asks the fabric only if somebody does. */
static uint16_t waiting[1024];

static uint16_t *waiters(const volatile void *word) { return &waiting[((uintptr_t)word >> 3) % 1024]; }

static bool waited(const volatile void *word, int64_t ns, bool interruptible)
{
	++*waiters(word);
	int64_t result = LIVE_ASK(OP_WAIT_WORD, (int64_t)(uintptr_t)word, ns, interruptible);
	--*waiters(word);
	return result != -ETIMEDOUT;
}
/* Waits for `word`; false when the time is over. */
static bool wait_word(const volatile void *word, int64_t ns) { return waited(word, ns, false); }
/* The same where a thread can be cancelled. */
static bool await_word(const volatile void *word, int64_t ns) { return waited(word, ns, true); }
static void wake_word(const volatile void *word, int count)
{
	if (live_mine && *waiters(word))
		LIVE_ASK(OP_WAKE_WORD, (int64_t)(uintptr_t)word, count);
}

/* ns until a point in time of either clock; what is not far from the epoch of the one is of that. */
static int64_t until(const struct timespec *at)
{
	int64_t then = (int64_t)at->tv_sec * NS_PER_S + at->tv_nsec, now = (int64_t)(live_now() / 1000);
	int64_t epoch = (int64_t)live_arena->epoch_ns, boot = (int64_t)live_arena->boot_ns;
	int64_t start = then > epoch / 2 ? epoch : boot;
	return then - start - now;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_lock);
	return live_mine ? ACQUIRE(pthread_mutex_trylock, mutex) : real(mutex);
}
int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at)
{
	REAL(pthread_mutex_timedlock);
	if (!live_mine)
		return real(mutex, at);
	int error;
	while ((error = pthread_mutex_trylock(mutex)) == EBUSY) {
		int64_t left = until(at);
		if (left <= 0)
			return ETIMEDOUT;
		wait_word(mutex, left < LOOK_AGAIN_NS ? left : LOOK_AGAIN_NS);
	}
	return error;
}
int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_unlock);
	int error = real(mutex);
	if (!error)
		wake_word(mutex, 1);
	return error;
}

/* Every wait may end early: programs look at what they wait for. */
static int wait_condition(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t ns)
{
	pthread_mutex_unlock(mutex);
	bool in_time = await_word(condition, ns);
	pthread_mutex_lock(mutex);
	/* Whoever cleans up has the mutex. */
	pthread_testcancel();
	return in_time ? 0 : ETIMEDOUT;
}
int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex)
{
	REAL(pthread_cond_wait);
	return live_mine ? wait_condition(condition, mutex, -1) : real(condition, mutex);
}
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict at)
{
	REAL(pthread_cond_timedwait);
	if (!live_mine)
		return real(condition, mutex, at);
	int64_t left = until(at);
	return left <= 0 ? ETIMEDOUT : wait_condition(condition, mutex, left);
}
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at)
{
	(void)clock;
	return pthread_cond_timedwait(condition, mutex, at);
}
int pthread_cond_signal(pthread_cond_t *condition)
{
	REAL(pthread_cond_signal);
	wake_word(condition, 1);
	return live_mine ? 0 : real(condition);
}
int pthread_cond_broadcast(pthread_cond_t *condition)
{
	REAL(pthread_cond_broadcast);
	wake_word(condition, INT32_MAX);
	return live_mine ? 0 : real(condition);
}

int sem_wait(sem_t *semaphore)
{
	REAL(sem_wait);
	if (!live_mine)
		return real(semaphore);
	while (sem_trywait(semaphore)) {
		if (errno != EAGAIN)
			return -1;
		await_word(semaphore, LOOK_AGAIN_NS);
		pthread_testcancel();
	}
	return 0;
}
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict at)
{
	REAL(sem_timedwait);
	if (!live_mine)
		return real(semaphore, at);
	while (sem_trywait(semaphore)) {
		int64_t left = until(at);
		if (errno != EAGAIN)
			return -1;
		if (left <= 0)
			return errno = ETIMEDOUT, -1;
		await_word(semaphore, left < LOOK_AGAIN_NS ? left : LOOK_AGAIN_NS);
		pthread_testcancel();
	}
	return 0;
}
int sem_post(sem_t *semaphore)
{
	REAL(sem_post);
	int error = real(semaphore);
	wake_word(semaphore, 1);
	return error;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	REAL(pthread_rwlock_rdlock);
	return live_mine ? ACQUIRE(pthread_rwlock_tryrdlock, lock) : real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	REAL(pthread_rwlock_wrlock);
	return live_mine ? ACQUIRE(pthread_rwlock_trywrlock, lock) : real(lock);
}
int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	REAL(pthread_rwlock_unlock);
	int error = real(lock);
	if (!error)
		wake_word(lock, INT32_MAX);
	return error;
}
int pthread_spin_lock(pthread_spinlock_t *lock)
{
	REAL(pthread_spin_lock);
	if (!live_mine)
		return real(lock);
	int error;
	while ((error = pthread_spin_trylock(lock)) == EBUSY)
		sched_yield();
	return error;
}

struct barrier {
	pthread_barrier_t *of;
	unsigned count, come, round;
};
static struct barrier barriers[256];

static struct barrier *barrier_of(pthread_barrier_t *of)
{
	for (size_t i = 0; i < sizeof barriers / sizeof *barriers; i++)
		if (barriers[i].of == of)
			return &barriers[i];
	return NULL;
}
int pthread_barrier_init(pthread_barrier_t *restrict of, const pthread_barrierattr_t *restrict attr, unsigned count)
{
	REAL(pthread_barrier_init);
	int error = real(of, attr, count);
	struct barrier *free = barrier_of(of);
	if (!free)
		free = barrier_of(NULL);
	if (!error && free)
		*free = (struct barrier){ of, count, 0, 0 };
	return error;
}
int pthread_barrier_destroy(pthread_barrier_t *of)
{
	REAL(pthread_barrier_destroy);
	struct barrier *known = barrier_of(of);
	if (known)
		known->of = NULL;
	return real(of);
}
int pthread_barrier_wait(pthread_barrier_t *of)
{
	REAL(pthread_barrier_wait);
	struct barrier *known = barrier_of(of);
	if (!live_mine || !known)
		return real(of);
	unsigned round = known->round;
	if (++known->come == known->count) {
		known->come = 0;
		known->round++;
		wake_word(known, INT32_MAX);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	while (known->round == round)
		wait_word(known, -1);
	return 0;
}

/* A loop around it waits for another thread: time passes there. */
int sched_yield(void)
{
	if (!live_mine)
		return (int)live_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	LIVE_ASK(OP_YIELD);
	return 0;
}

static long futex(int *word, int op, int value, const struct timespec *how, long argument, long value_3)
{
	int64_t ns = how ? how->tv_sec * NS_PER_S + how->tv_nsec : -1;
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT_BITSET:
		ns = how ? until(how) : -1;
		/* fall through */
	case FUTEX_WAIT:
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value)
			return errno = EAGAIN, -1;
		if (op & FUTEX_PRIVATE_FLAG)
			return wait_word(word, ns) ? 0 : (errno = ETIMEDOUT, -1);
		/* Another process may change it. */
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value) {
			int64_t step = ns < 0 || ns > LOOK_AGAIN_NS ? LOOK_AGAIN_NS : ns;
			wait_word(word, step);
			if (ns >= 0 && (ns -= step) <= 0)
				return errno = ETIMEDOUT, -1;
		}
		return 0;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		wake_word(word, value);
		return value < 1 ? 0 : 1;
	default:
		return live_syscall(SYS_futex, word, op, value, how, argument, value_3);
	}
}

long syscall(long number, ...)
{
	SIX_ARGUMENTS(number);
	if (live_mine && number == SYS_futex)
		return futex((int *)a[0], (int)a[1], (int)a[2], (const struct timespec *)a[3], a[4], a[5]);
	if (live_mine && number == SYS_sched_yield)
		return sched_yield();
	if (live_mine && number == SYS_gettid)
		return live_thread_number();
	if (live_mine && number == SYS_getpid)
		return getpid();
	if (live_mine && number == SYS_getrandom)
		return getrandom((void *)a[0], (size_t)a[1], (unsigned)a[2]);
	return live_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
