/* Completion queues, and events: of queues that were asked to tell, and of objects of a device. */
#define _GNU_SOURCE
#include "real.h"
#include "parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Polls of nothing in a row before others are let run now and then, and before the program is put to sleep. Basis: assumed, some 10 us and 200.
 * Whoever sleeps at once is woken on the core of its peer, and both stay there. */
#define PATIENCE 500
#define NOW_AND_THEN 100
#define MOST_PATIENCE 10000
#define EVENT_CQ_ERROR 0

/* ---- what tells a program to look: a descriptor that can be read ---- */

static void raise_descriptor(int fd)
{
	const uint64_t one = 1;
	live_syscall(SYS_write, fd, &one, sizeof one, 0, 0, 0);
}
/* Without waiting: a thread that waits there may have read it in the meantime. */
static void lower_descriptor(int fd)
{
	uint64_t count;
	struct iovec into = { &count, sizeof count };
	live_syscall(SYS_preadv2, fd, &into, 1, -1l, -1l, RWF_NOWAIT);
}

/* Lets go of the lock until a descriptor can be read: by reading, as on hardware, so that signals do to it what they do there. 0, or an error. */
static int await_descriptor(int fd)
{
	uint64_t count;
	real_hand_over();
	real_unlock();
	int error = live_syscall(SYS_read, fd, &count, sizeof count, 0, 0, 0) < 0 ? errno : 0;
	real_lock();
	return error;
}

/* ---- completion queues ---- */

struct completion real_wc(const struct qp *qp, uint64_t wr_id, uint32_t status, uint32_t opcode, uint32_t index)
{
	bool shared = opcode & WC_RECV && qp->srq;
	return (struct completion){ { wr_id, status | (uint64_t)opcode << 32, 0, (uint64_t)qp->number << 32, 0, 0, (uint64_t)index + 1,
				      shared ? qp->srq->id + 1ull : 0 } };
}

static void tell_channel(struct cq *cq)
{
	struct channel *channel = cq->channel;
	if (cq->armed) {
		cq->armed = NOT_ARMED;
		real_adapter.armed--;
	}
	if (!channel)
		return;
	if (cq->events++ == 0) {
		cq->next_event = NULL;
		if (channel->first)
			channel->last->next_event = cq;
		else
			channel->first = cq;
		channel->last = cq;
	}
	if (channel->first == cq && cq->events == 1)
		raise_descriptor(channel->fd);
}

static struct completion *kept_at(const struct cq *cq, uint32_t place) { return &cq->kept[place & (cq->room - 1)]; }

/* One queue takes what it has room for, and doubles that until it is as deep as it was asked to be. */
static bool make_room(struct cq *cq)
{
	uint32_t used = cq->head - cq->tail;
	if (used < cq->room)
		return true;
	if (used >= cq->depth)
		return false;
	struct completion *more = malloc(2ul * cq->room * sizeof *more);
	if (!more)
		return false;
	for (uint32_t i = 0; i < used; i++)
		more[i] = *kept_at(cq, cq->tail + i);
	free(cq->kept);
	cq->kept = more;
	cq->room *= 2;
	cq->tail = 0;
	cq->head = used;
	return true;
}

void real_complete(struct cq *cq, const struct completion *of, bool solicited)
{
	if (!make_room(cq)) {
		if (!cq->overrun)
			real_async(cq->nic, EVENT_CQ_ERROR, cq->id);
		cq->overrun = true;
		return;
	}
	*kept_at(cq, cq->head++) = *of;
	bool failed = (uint32_t)of->word[1] != 0;
	if (cq->armed == ARMED_ANY || (cq->armed == ARMED_SOLICITED && (solicited || failed)))
		tell_channel(cq);
}

/* Places in the queues of a completion are free again once it was polled. */
static void release(const struct completion *of)
{
	struct qp *qp = real_qp((uint32_t)(of->word[3] >> 32));
	uint32_t index = (uint32_t)of->word[6];
	if (!qp)
		return;
	if (!((of->word[1] >> 32) & WC_RECV))
		qp->freed = (int32_t)(index - qp->freed) > 0 ? index : qp->freed;
	else if (of->word[7])
		qp->srq->queue.freed++;
	else
		qp->queue.freed++;
}

int64_t real_poll(struct cq *cq, int64_t most, uint64_t *words)
{
	static uint32_t empty;
	if (!cq)
		return -EINVAL;
	real_polls();
	if (cq->head == cq->tail)
		real_progress();
	if (cq->head == cq->tail) {
		if (++empty <= PATIENCE || (empty <= MOST_PATIENCE && empty % NOW_AND_THEN))
			return 0;
		/* It may be that nobody else can run. */
		real_rest(empty <= MOST_PATIENCE);
	}
	if (cq->head == cq->tail)
		return 0;
	empty = 0;
	int64_t found = 0;
	for (; found < most && cq->tail != cq->head; found++, words += WC_WORDS) {
		const struct completion *one = kept_at(cq, cq->tail++);
		memcpy(words, one->word, sizeof one->word);
		release(one);
	}
	return found;
}

/* Those of a queue pair that were not polled are gone. */
void real_drop_completions(struct cq *cq, struct qp *qp)
{
	uint32_t kept = cq->tail;
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		struct completion *one = kept_at(cq, i);
		if (one->word[3] >> 32 != qp->number)
			*kept_at(cq, kept++) = *one;
		else if (one->word[7])
			qp->srq->queue.freed++;
	}
	cq->head = kept;
}

int64_t real_notify(struct cq *cq, bool solicited)
{
	if (!cq)
		return -EINVAL;
	if (cq->channel) {
		real_adapter.armed += cq->armed == NOT_ARMED;
		cq->armed = solicited && cq->armed != ARMED_ANY ? ARMED_SOLICITED : ARMED_ANY;
		/* What came before is in the queue already. */
		real_hand_over();
	}
	return 0;
}

/* ---- channels ---- */

static struct channel *channels;
static uint32_t next_channel;

int64_t real_create_channel(int fd)
{
	struct channel *made = calloc(1, sizeof *made);
	if (!made)
		return -ENOMEM;
	*made = (struct channel){ .fd = fd, .next = channels, .id = next_channel++ };
	channels = made;
	return made->id;
}

struct channel *real_channel(int64_t id)
{
	struct channel *of = channels;
	while (of && of->id != id)
		of = of->next;
	return of;
}

int64_t real_destroy_channel(uint32_t id)
{
	struct channel **at = &channels;
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	struct channel *gone = *at;
	if (gone)
		*at = gone->next;
	free(gone);
	return 0;
}

static void forget_event(struct channel *channel, struct cq *cq)
{
	struct cq **at = &channel->first, *last = NULL;
	while (*at && *at != cq) {
		last = *at;
		at = &(*at)->next_event;
	}
	if (!*at)
		return;
	*at = cq->next_event;
	if (channel->last == cq)
		channel->last = last;
	if (!channel->first)
		lower_descriptor(channel->fd);
}

void real_leave_channel(struct cq *cq)
{
	if (cq->armed)
		real_adapter.armed--;
	cq->armed = NOT_ARMED;
	if (cq->channel)
		forget_event(cq->channel, cq);
}

int64_t real_take_event(uint32_t id, bool waits)
{
	struct channel *channel = real_channel(id);
	if (!channel)
		return -EINVAL;
	while (!channel->first) {
		if (!waits)
			return -EAGAIN;
		int error = await_descriptor(channel->fd);
		if (error)
			return -error;
		if (channel->first)
			raise_descriptor(channel->fd);
	}
	struct cq *cq = channel->first;
	if (--cq->events == 0)
		forget_event(channel, cq);
	return cq->own_name;
}

/* ---- events of devices ---- */

struct notice {
	uint32_t nic, type, number;
};
static struct notice notices[256];
static uint32_t noticed, heard;
#define MOST_NOTICES (sizeof notices / sizeof *notices)
/* A device may be opened several times: all its descriptors say that there is something, the first to ask takes it. */
#define MOST_OPENED 64
static struct {
	uint32_t nic;
	int fd;
} opened[MOST_OPENED];
static uint32_t open_count;

int64_t real_create_async(uint32_t nic, int fd)
{
	for (uint32_t i = 0; i < open_count; i++)
		if (opened[i].fd == fd)
			return opened[i].nic = nic, 0;
	if (open_count == MOST_OPENED)
		return -EMFILE;
	opened[open_count].nic = nic;
	opened[open_count++].fd = fd;
	return 0;
}

int64_t real_forget_descriptor(int fd)
{
	for (uint32_t i = 0; i < open_count; i++)
		if (opened[i].fd == fd) {
			opened[i] = opened[--open_count];
			break;
		}
	return 0;
}

static uint32_t waiting_notices(uint32_t nic)
{
	uint32_t count = 0;
	for (uint32_t i = heard; i != noticed; i++)
		count += notices[i % MOST_NOTICES].nic == nic;
	return count;
}

static void for_descriptors(uint32_t nic, void (*act)(int))
{
	for (uint32_t i = 0; i < open_count; i++)
		if (opened[i].nic == nic)
			act(opened[i].fd);
}

void real_async(uint32_t nic, uint32_t type, uint32_t number)
{
	if (noticed - heard == MOST_NOTICES)
		return;
	bool first = !waiting_notices(nic);
	notices[noticed++ % MOST_NOTICES] = (struct notice){ nic, type, number };
	if (first)
		for_descriptors(nic, raise_descriptor);
}

/* Takes the notice at `place` out. */
static struct notice take_notice(uint32_t place)
{
	struct notice taken = notices[place % MOST_NOTICES];
	for (; place != heard; place--)
		notices[place % MOST_NOTICES] = notices[(place - 1) % MOST_NOTICES];
	heard++;
	if (!waiting_notices(taken.nic))
		for_descriptors(taken.nic, lower_descriptor);
	return taken;
}

/* Nobody hears of an object that is gone; one of queues and of pairs have their own numbers. */
void real_forget_async(uint32_t nic, uint32_t type, uint32_t number)
{
	for (uint32_t i = heard; i != noticed; i++) {
		const struct notice *one = &notices[i % MOST_NOTICES];
		bool same_kind = (one->type == EVENT_CQ_ERROR) == (type == EVENT_CQ_ERROR) && (one->type == EVENT_SRQ_LIMIT) == (type == EVENT_SRQ_LIMIT);
		if (one->nic == nic && one->number == number && same_kind)
			take_notice(i);
	}
}

int64_t real_take_async(uint32_t nic, bool waits, int64_t *number)
{
	for (;;) {
		for (uint32_t i = heard; i != noticed; i++)
			if (notices[i % MOST_NOTICES].nic == nic) {
				struct notice taken = take_notice(i);
				*number = taken.number;
				return taken.type;
			}
		int fd = -1;
		for (uint32_t i = 0; i < open_count; i++)
			fd = opened[i].nic == nic ? opened[i].fd : fd;
		if (!waits || fd < 0)
			return -EAGAIN;
		int error = await_descriptor(fd);
		if (error)
			return -error;
		if (waiting_notices(nic))
			raise_descriptor(fd);
	}
}
