/* Clocks: the calls of libc, and the time stamp counter that programs read without a call.
 *
 * A read costs a little virtual time, so that loops that wait for a clock end; perftest waits for a fifth of a second for each size. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PS_PER_NS 1000u
#define PS_PER_US 1000000u
#define NS_PER_S 1000000000ull

/* Reads of a clock, one after the other, from which on a thread does nothing but wait for it. */
#define READS_BEFORE_WAITING 1000

/* What one more read of a clock of microseconds costs. A thread that has done nothing else for long waits for the clock: the next read that
 * shows anything new is the next microsecond's. */
static uint64_t cost_of_read(void)
{
	static __thread uint64_t reads __attribute__((tls_model("initial-exec"))), before __attribute__((tls_model("initial-exec")));
	uint64_t at = live_now(), cost = live_arena->clock_read;
	reads = at == before ? reads + 1 : 0;
	if (reads > READS_BEFORE_WAITING) {
		uint64_t since = (at + cost + live_arena->epoch_ns % 1000 * PS_PER_NS) % PS_PER_US;
		cost += since > 0 ? PS_PER_US - since : 0;
	}
	before = at + cost;
	return cost;
}

static uint64_t clock_at(clockid_t clock)
{
	uint64_t ns = live_now() / PS_PER_NS;
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		return live_arena->epoch_ns + ns;
	case CLOCK_PROCESS_CPUTIME_ID:
	case CLOCK_THREAD_CPUTIME_ID:
		return ns;
	default:
		return live_arena->boot_ns + ns;
	}
}

static uint64_t read_clock(clockid_t clock)
{
	live_spend(live_arena->clock_read);
	return clock_at(clock);
}

static bool is_known(clockid_t clock) { return clock >= CLOCK_REALTIME && clock <= CLOCK_TAI; }

int clock_gettime(clockid_t clock, struct timespec *at)
{
	if (live_real) {
		/* libc reads it without a system call. */
		REAL(clock_gettime);
		return real(clock, at);
	}
	if (!live_mine || !is_known(clock))
		return (int)live_syscall(SYS_clock_gettime, clock, at);
	uint64_t ns = read_clock(clock);
	*at = (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
	if (live_real) {
		REAL(gettimeofday);
		return real(at, zone);
	}
	if (!live_mine)
		return (int)live_syscall(SYS_gettimeofday, at, zone);
	live_spend(cost_of_read());
	uint64_t ns = clock_at(CLOCK_REALTIME);
	*at = (struct timeval){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000) };
	return 0;
}

time_t time(time_t *at)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}

clock_t clock(void)
{
	struct timespec at;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return at.tv_sec * CLOCKS_PER_SEC + at.tv_nsec / (1000000000 / CLOCKS_PER_SEC);
}

static int sleep_ns(uint64_t ns) { return (int)live_result(LIVE_ASK(OP_SLEEP, (int64_t)ns)); }

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *how, struct timespec *left)
{
	if (!live_mine)
		return live_syscall(SYS_clock_nanosleep, clock, flags, how, left) < 0 ? errno : 0;
	if (how->tv_nsec < 0 || how->tv_nsec >= (long)NS_PER_S || how->tv_sec < 0)
		return EINVAL;
	uint64_t ns = (uint64_t)how->tv_sec * NS_PER_S + (uint64_t)how->tv_nsec;
	if (flags & TIMER_ABSTIME) {
		uint64_t now = read_clock(clock);
		ns = ns > now ? ns - now : 0;
	}
	return sleep_ns(ns) < 0 ? errno : 0;
}

int nanosleep(const struct timespec *how, struct timespec *left)
{
	int error = clock_nanosleep(CLOCK_MONOTONIC, 0, how, left);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

int usleep(useconds_t us)
{
	struct timespec how = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	return nanosleep(&how, NULL);
}

unsigned sleep(unsigned seconds)
{
	struct timespec how = { .tv_sec = seconds };
	return nanosleep(&how, NULL) ? seconds : 0;
}

/* ---- timers ---- */

static uint64_t interval_ps;

void live_raise_alarm(void)
{
	struct live_slot *slot = live_mine;
	if (!slot->alarm || slot->now < slot->alarm)
		return;
	slot->alarm = interval_ps ? slot->alarm + interval_ps : 0;
	live_syscall(SYS_tgkill, live_syscall(SYS_getpid), live_syscall(SYS_gettid), SIGALRM, 0, 0, 0);
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict set, struct itimerval *restrict old)
{
	if (!live_mine || which != ITIMER_REAL)
		return (int)live_syscall(SYS_setitimer, which, set, old, 0, 0, 0);
	uint64_t left = live_mine->alarm > live_now() ? (live_mine->alarm - live_now()) / 1000000 : 0, every = interval_ps / 1000000;
	if (old)
		*old = (struct itimerval){ { (time_t)(every / 1000000), (suseconds_t)(every % 1000000) },
					   { (time_t)(left / 1000000), (suseconds_t)(left % 1000000) } };
	if (!set)
		return 0;
	interval_ps = ((uint64_t)set->it_interval.tv_sec * 1000000 + (uint64_t)set->it_interval.tv_usec) * 1000000;
	uint64_t first = ((uint64_t)set->it_value.tv_sec * 1000000 + (uint64_t)set->it_value.tv_usec) * 1000000;
	live_mine->alarm = first ? live_now() + first : 0;
	return 0;
}
int getitimer(__itimer_which_t which, struct itimerval *of)
{
	if (!live_mine || which != ITIMER_REAL)
		return (int)live_syscall(SYS_getitimer, which, of, 0, 0, 0, 0);
	return setitimer(which, NULL, of);
}
unsigned alarm(unsigned seconds)
{
	struct itimerval set = { .it_value.tv_sec = seconds }, old;
	setitimer(ITIMER_REAL, &set, &old);
	return (unsigned)(old.it_value.tv_sec + (old.it_value.tv_usec > 0));
}
useconds_t ualarm(useconds_t first, useconds_t every)
{
	struct itimerval set = { { every / 1000000, every % 1000000 }, { first / 1000000, first % 1000000 } }, old;
	setitimer(ITIMER_REAL, &set, &old);
	return (useconds_t)(old.it_value.tv_sec * 1000000 + old.it_value.tv_usec);
}

/* ---- waiting for signals: those of the run come while this thread waits in virtual time ---- */

#define BETWEEN_SIGNALS_NS 1000000

int sigsuspend(const sigset_t *mask)
{
	if (!live_mine)
		return (int)live_syscall(SYS_rt_sigsuspend, mask, 8, 0, 0, 0, 0);
	const struct timespec at_once = { 0, 0 };
	while (live_syscall(SYS_ppoll, NULL, 0, &at_once, mask, 8, 0) >= 0)
		LIVE_ASK(OP_SLEEP, BETWEEN_SIGNALS_NS);
	return -1;
}
int pause(void)
{
	sigset_t mask;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	return sigsuspend(&mask);
}
int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict how)
{
	if (!live_mine)
		return (int)live_syscall(SYS_rt_sigtimedwait, set, info, how, 8, 0, 0);
	const struct timespec at_once = { 0, 0 };
	uint64_t until = how ? live_now() + ((uint64_t)how->tv_sec * NS_PER_S + (uint64_t)how->tv_nsec) * PS_PER_NS : UINT64_MAX;
	for (;;) {
		int found = (int)live_syscall(SYS_rt_sigtimedwait, set, info, &at_once, 8, 0, 0);
		if (found >= 0 || errno != EAGAIN || live_now() >= until)
			return found;
		LIVE_ASK(OP_SLEEP, BETWEEN_SIGNALS_NS);
	}
}
int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info) { return sigtimedwait(set, info, NULL); }
int sigwait(const sigset_t *restrict set, int *restrict number)
{
	int found = sigtimedwait(set, NULL, NULL);
	if (found < 0)
		return errno;
	*number = found;
	return 0;
}

#if defined(__x86_64__)

/* Where the kernel's own code for clocks lies in every process: it needs the real counter. */
static uintptr_t kernel_code;

bool live_answer_tsc(siginfo_t *info, void *context)
{
	(void)info;
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)registers[REG_RIP];
	if (!live_arena || info->si_code != SI_KERNEL)
		return false;
	bool rdtsc = code[0] == 0x0f && code[1] == 0x31, rdtscp = code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9;
	if (!rdtsc && !rdtscp)
		return false;
	uint64_t tsc;
	uintptr_t at = (uintptr_t)code;
	if (live_mine && !(kernel_code && at >= kernel_code && at < kernel_code + 0x4000)) {
		live_spend(live_arena->tsc_read);
		tsc = (uint64_t)((unsigned __int128)live_now() * live_arena->tsc_khz / 1000000000u);
	} else {
		live_unwatch_clock();
		tsc = __builtin_ia32_rdtsc();
		live_watch_clock();
	}
	registers[REG_RAX] = (greg_t)(tsc & 0xffffffffu);
	registers[REG_RDX] = (greg_t)(tsc >> 32);
	if (rdtscp)
		registers[REG_RCX] = 0;
	registers[REG_RIP] += rdtsc ? 2 : 3;
	return true;
}

void live_watch_clock(void)
{
	kernel_code = getauxval(AT_SYSINFO_EHDR);
	if (live_mine)
		live_syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
}
void live_unwatch_clock(void) { live_syscall(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0); }

#else

bool live_answer_tsc(siginfo_t *info, void *context)
{
	(void)info, (void)context;
	return false;
}
void live_watch_clock(void) {}
void live_unwatch_clock(void) {}

#endif
