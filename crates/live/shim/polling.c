/* Waiting for descriptors: poll, select, epoll. */
#define _GNU_SOURCE
#include "channel.h"
#include "sockets.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long descriptors of the kernel are not looked at while others are waited for, in virtual time. */
#define BETWEEN_LOOKS_NS 1000000
#define FIRST_LOOK_NS 8000
#define MOST_POLLED 1024

static bool is_served(int fd) { return live_mine && live_is_served(fd); }

static int real_poll(struct pollfd *fds, nfds_t count, int ms)
{
	struct timespec how = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	return (int)live_syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &how, NULL, 8, 0);
}

/* Asks for those that the fabric serves; gives how many are ready, or -1 where a signal came. Of a set of epoll it says as
 * well whether it was changed in the meantime. */
static int ask(struct pollfd *fds, nfds_t count, int64_t ns, int set, bool *changed)
{
	uint32_t *to = (uint32_t *)live_question();
	size_t asked = 0;
	for (nfds_t i = 0; i < count && asked < MOST_POLLED; i++)
		if (is_served(fds[i].fd)) {
			to[2 * asked] = (uint32_t)fds[i].fd;
			to[2 * asked + 1] = (uint32_t)(unsigned short)fds[i].events;
			asked++;
		}
	live_mine->args[0] = ns;
	live_mine->args[1] = set;
	int64_t result = live_ask(OP_POLL, asked * 8);
	*changed = result > 0;
	if (result < 0)
		return errno = (int)-result, -1;
	const uint32_t *from = (const uint32_t *)live_question();
	int ready = 0;
	size_t answered = 0;
	for (nfds_t i = 0; i < count && answered < asked; i++)
		if (is_served(fds[i].fd)) {
			fds[i].revents = (short)from[answered++];
			ready += fds[i].revents != 0;
		}
	return ready;
}

void live_await_kernel(int fd, short events)
{
	if (!live_mine || !live_blocks(fd))
		return;
	int64_t ns = FIRST_LOOK_NS;
	for (;;) {
		struct pollfd one = { fd, events, 0 };
		if (real_poll(&one, 1, 0) != 0)
			return;
		LIVE_ASK(OP_SLEEP, ns);
		if (ns < BETWEEN_LOOKS_NS)
			ns *= 2;
	}
}

void live_await_child(int which, int options)
{
	idtype_t kind = which > 0 ? P_PID : which < -1 ? P_PGID : P_ALL;
	id_t whose = (id_t)(which < -1 ? -which : which > 0 ? which : 0);
	int64_t ns = FIRST_LOOK_NS;
	for (;;) {
		siginfo_t found = { .si_pid = 0 };
		long result = live_syscall(SYS_waitid, kind, whose, &found, WNOHANG | WNOWAIT | WEXITED | (options & (WUNTRACED | WCONTINUED)), NULL, 0);
		if (options & WNOHANG || result < 0 || found.si_pid)
			return;
		LIVE_ASK(OP_SLEEP, ns);
		if (ns < BETWEEN_LOOKS_NS)
			ns *= 2;
	}
}

/* As `poll`; of a set of epoll, `set`, it ends also when another thread changes that. */
static int wait_for(struct pollfd *fds, nfds_t count, int64_t ns, int set, bool *changed)
{
	size_t others = 0;
	int64_t look = FIRST_LOOK_NS;
	for (nfds_t i = 0; i < count; i++) {
		fds[i].revents = 0;
		others += fds[i].fd >= 0 && !is_served(fds[i].fd);
	}
	uint64_t until = ns < 0 ? UINT64_MAX : live_now() / 1000 + (uint64_t)ns;
	for (;;) {
		int ready = 0;
		if (others) {
			struct pollfd *kernel = malloc(count * sizeof *kernel);
			if (!kernel)
				return errno = ENOMEM, -1;
			for (nfds_t i = 0; i < count; i++)
				kernel[i] = is_served(fds[i].fd) ? (struct pollfd){ .fd = -1 } : fds[i];
			/* What other processes of the run do to them is done while this one waits in virtual time. */
			ready = real_poll(kernel, count, 0);
			for (nfds_t i = 0; ready >= 0 && i < count; i++)
				if (!is_served(fds[i].fd))
					fds[i].revents = kernel[i].revents;
			free(kernel);
			if (ready < 0)
				return ready;
		}
		uint64_t now = live_now() / 1000;
		int64_t left = ns < 0 ? -1 : until > now ? (int64_t)(until - now) : 0;
		if (ready)
			left = 0;
		else if (others && (left < 0 || left > look))
			left = look;
		if (look < BETWEEN_LOOKS_NS)
			look *= 2;
		int served = ask(fds, count, left, set, changed);
		if (served < 0)
			return -1;
		ready += served;
		if (ready || *changed || (ns >= 0 && live_now() / 1000 >= until))
			return ready;
	}
}

/* ---- sets of descriptors ---- */

struct interest {
	int set, fd;
	struct epoll_event event;
	struct interest *next;
};
static struct interest *interests;
/* Threads that wait for each set. */
static uint16_t waiters[MOST_FDS];

/* What is in a set, from `fds[count]` on; gives how many there are then. */
static nfds_t members(int set, struct pollfd *fds, nfds_t count)
{
	for (struct interest *one = interests; one && count < MOST_POLLED; one = one->next)
		if (one->set == set)
			fds[count++] = (struct pollfd){ one->fd, (short)(one->event.events & 0x3fff), 0 };
	return count;
}

/* As `wait_for`, where descriptors may be sets themselves: those are readable while anything in them is ready. */
static int wait_for_all(struct pollfd *fds, nfds_t count, int64_t ns, int set, bool *changed)
{
	struct pollfd flat[MOST_POLLED];
	nfds_t used = 0, at = 0, sets = 0;
	for (nfds_t i = 0; i < count; i++)
		sets += live_mine && live_kind_of(fds[i].fd) == FD_POLL_SET;
	if (!sets || count > MOST_POLLED)
		return wait_for(fds, count, ns, set, changed);
	for (nfds_t i = 0; i < count && used < MOST_POLLED; i++) {
		if (live_kind_of(fds[i].fd) != FD_POLL_SET) {
			flat[used++] = fds[i];
			continue;
		}
		set = set < 0 ? fds[i].fd : set;
		if (fds[i].events & POLLIN)
			used = members(fds[i].fd, flat, used);
	}
	if (wait_for(flat, used, ns, set, changed) < 0)
		return -1;
	int ready = 0;
	for (nfds_t i = 0; i < count && at <= used; i++) {
		fds[i].revents = 0;
		if (live_kind_of(fds[i].fd) != FD_POLL_SET) {
			fds[i].revents = at < used ? flat[at++].revents : 0;
		} else if (fds[i].events & POLLIN) {
			/* As long as nothing was changed, they are those of before. */
			for (struct interest *one = interests; !*changed && one && at < used; one = one->next)
				if (one->set == fds[i].fd && flat[at++].revents)
					fds[i].revents = POLLIN;
		}
		ready += fds[i].revents != 0;
	}
	return *changed ? 0 : ready;
}

/* Waits for descriptors, or, with `set`, for what is in a set, whoever changes that in the meantime; `*count` is how many there were at last. */
static int wait_changing(struct pollfd *fds, nfds_t *count, int64_t ns, int set)
{
	int watched = set;
	for (nfds_t i = 0; watched < 0 && i < *count; i++)
		if (live_kind_of(fds[i].fd) == FD_POLL_SET)
			watched = fds[i].fd;
	uint64_t until = live_now() / 1000 + (uint64_t)(ns < 0 ? 0 : ns);
	for (;;) {
		bool changed = false;
		if (set >= 0)
			*count = members(set, fds, 0);
		uint64_t now = live_now() / 1000;
		if (watched >= 0)
			waiters[watched]++;
		int ready = wait_for_all(fds, *count, ns < 0 ? -1 : until > now ? (int64_t)(until - now) : 0, watched, &changed);
		if (watched >= 0)
			waiters[watched]--;
		if (ready || !changed)
			return ready;
	}
}

int live_poll(struct pollfd *fds, nfds_t count, int64_t ns) { return wait_changing(fds, &count, ns, -1); }

int poll(struct pollfd *fds, nfds_t count, int ms)
{
	return live_mine ? live_poll(fds, count, ms < 0 ? -1 : (int64_t)ms * 1000000) : real_poll(fds, count, ms);
}
int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room)
{
	(void)room;
	return poll(fds, count, ms);
}
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *how, const sigset_t *mask)
{
	if (!live_mine)
		return (int)live_syscall(SYS_ppoll, fds, count, how, mask, 8, 0);
	return live_poll(fds, count, how ? how->tv_sec * 1000000000ll + how->tv_nsec : -1);
}

static int wait_for_sets(int count, fd_set *in, fd_set *out, fd_set *except, int64_t ns)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t used = 0;
	for (int fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
		short events = (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) | (out && FD_ISSET(fd, out) ? POLLOUT : 0) |
				       (except && FD_ISSET(fd, except) ? POLLPRI : 0));
		if (events)
			fds[used++] = (struct pollfd){ fd, events, 0 };
	}
	if (live_poll(fds, used, ns) < 0)
		return -1;
	int found = 0;
	for (nfds_t i = 0; i < used; i++) {
		int fd = fds[i].fd, came = fds[i].revents;
		if (in && FD_ISSET(fd, in) && !(came & (POLLIN | POLLHUP | POLLERR)))
			FD_CLR(fd, in);
		if (out && FD_ISSET(fd, out) && !(came & (POLLOUT | POLLERR)))
			FD_CLR(fd, out);
		if (except && FD_ISSET(fd, except) && !(came & POLLPRI))
			FD_CLR(fd, except);
		found += (in && FD_ISSET(fd, in)) + (out && FD_ISSET(fd, out)) + (except && FD_ISSET(fd, except));
	}
	return found;
}

int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *how)
{
	if (!live_mine) {
		struct timespec real = how ? (struct timespec){ how->tv_sec, how->tv_usec * 1000 } : (struct timespec){ 0 };
		return (int)live_syscall(SYS_pselect6, count, in, out, except, how ? &real : NULL, NULL);
	}
	return wait_for_sets(count, in, out, except, how ? how->tv_sec * 1000000000ll + how->tv_usec * 1000ll : -1);
}
int pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *how, const sigset_t *mask)
{
	(void)mask;
	if (!live_mine) {
		struct timespec real = how ? *how : (struct timespec){ 0 };
		return (int)live_syscall(SYS_pselect6, count, in, out, except, how ? &real : NULL, NULL);
	}
	return wait_for_sets(count, in, out, except, how ? how->tv_sec * 1000000000ll + how->tv_nsec : -1);
}

/* ---- epoll: which descriptors a set has is kept here and in the kernel ---- */

static struct interest **interest_at(int set, int fd)
{
	struct interest **at = &interests;
	while (*at && ((*at)->set != set || (*at)->fd != fd))
		at = &(*at)->next;
	return at;
}

int epoll_create1(int flags)
{
	int fd = (int)live_syscall(SYS_epoll_create1, flags, 0, 0, 0, 0, 0);
	if (live_mine && fd >= 0)
		live_set_kind(fd, FD_POLL_SET);
	return fd;
}
int epoll_create(int size)
{
	if (size <= 0)
		return errno = EINVAL, -1;
	return epoll_create1(0);
}

void live_forget_poll_set(int fd)
{
	for (struct interest **at = &interests; *at;) {
		struct interest *one = *at;
		if (one->set == fd || one->fd == fd) {
			*at = one->next;
			free(one);
		} else {
			at = &one->next;
		}
	}
}

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	int result = (int)live_syscall(SYS_epoll_ctl, set, op, fd, event, 0, 0);
	/* The kernel does not poll what stands for the connection manager, or for subnet management. */
	if (result < 0 && !(errno == EPERM && (live_kind_of(fd) == FD_CONNECTIONS || live_kind_of(fd) == FD_MANAGEMENT)))
		return result;
	if (live_kind_of(set) != FD_POLL_SET)
		return result;
	struct interest **at = interest_at(set, fd);
	if (op == EPOLL_CTL_DEL) {
		struct interest *gone = *at;
		if (gone) {
			*at = gone->next;
			free(gone);
		}
	} else if (*at) {
		(*at)->event = *event;
	} else {
		struct interest *one = malloc(sizeof *one);
		if (!one)
			return errno = ENOMEM, -1;
		*one = (struct interest){ set, fd, *event, NULL };
		*at = one;
	}
	/* Who waits for the set waits for what is in it from now on. */
	if (live_mine && waiters[set])
		LIVE_ASK(OP_POLL_SET, set);
	return 0;
}

int epoll_wait(int set, struct epoll_event *events, int most, int ms)
{
	if (!live_mine || live_kind_of(set) != FD_POLL_SET)
		return (int)live_syscall(SYS_epoll_pwait, set, events, most, ms, NULL, 8);
	struct pollfd fds[MOST_POLLED];
	nfds_t count = 0;
	if (wait_changing(fds, &count, ms < 0 ? -1 : (int64_t)ms * 1000000, set) < 0)
		return -1;
	int found = 0;
	for (nfds_t i = 0; i < count && found < most; i++) {
		/* Other threads may have changed the set in the meantime. */
		struct interest *one = fds[i].revents ? *interest_at(set, fds[i].fd) : NULL;
		if (!one)
			continue;
		events[found++] = (struct epoll_event){ (uint32_t)fds[i].revents, one->event.data };
		if (one->event.events & EPOLLONESHOT)
			one->event.events = 0;
	}
	return found;
}
int epoll_pwait(int set, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
	(void)mask;
	return epoll_wait(set, events, most, ms);
}
