/* Groups: which queue pairs get the datagrams that are sent to one, in a table that all processes see.
 *
 * Two processes may make the same group at the same time: then it has two places, and senders look at both. */
#define _GNU_SOURCE
#include "real.h"

#include <errno.h>

enum { FREE, FILLING, USED };

static struct real_group *groups(void) { return real_adapter.fabric->group; }

/* Where a program gives the number of a group alone, what stands for its name. */
static void name_of(uint32_t lid, const int64_t words[2], uint64_t gid[2])
{
	bool named = (uint64_t)words[0] >> 56 == 0xff;
	gid[0] = named ? (uint64_t)words[0] : 0xffull << 56;
	gid[1] = named ? (uint64_t)words[1] : lid;
}

static bool is_called(const struct real_group *of, const uint64_t gid[2])
{
	return atomic_load_explicit(&of->state, memory_order_acquire) == USED && of->gid[0] == gid[0] && of->gid[1] == gid[1];
}

static _Atomic uint32_t *member_of(struct real_group *of, uint32_t number)
{
	for (uint32_t i = 0; i < MOST_MEMBERS; i++)
		if (atomic_load(&of->member[i]) == number)
			return &of->member[i];
	return NULL;
}

static struct real_group *find(const uint64_t gid[2])
{
	for (uint32_t i = 0; i < MOST_GROUPS; i++)
		if (is_called(&groups()[i], gid))
			return &groups()[i];
	for (uint32_t i = 0, nobody = FREE; i < MOST_GROUPS; i++, nobody = FREE) {
		struct real_group *of = &groups()[i];
		if (!atomic_compare_exchange_strong(&of->state, &nobody, FILLING))
			continue;
		of->gid[0] = gid[0];
		of->gid[1] = gid[1];
		atomic_store_explicit(&of->state, USED, memory_order_release);
		return of;
	}
	return NULL;
}

static int64_t attach(struct qp *qp, const uint64_t gid[2])
{
	struct real_group *of = find(gid);
	if (!of)
		return -ENOMEM;
	if (member_of(of, qp->number))
		return -EINVAL;
	for (uint32_t i = 0, nobody = 0; i < MOST_MEMBERS; i++, nobody = 0)
		if (atomic_compare_exchange_strong(&of->member[i], &nobody, qp->number))
			return qp->groups++, 0;
	return -ENOMEM;
}

static int64_t detach(struct qp *qp, const uint64_t gid[2])
{
	for (uint32_t i = 0; i < MOST_GROUPS; i++) {
		_Atomic uint32_t *member = is_called(&groups()[i], gid) ? member_of(&groups()[i], qp->number) : NULL;
		if (member) {
			atomic_store(member, 0);
			qp->groups--;
			return 0;
		}
	}
	return -EINVAL;
}

/* Args as `verbs_objects.c` has them: adapter, queue pair, number of the group, name. */
int64_t real_group(enum live_op op, const int64_t args[8])
{
	struct qp *qp = real_qp((uint32_t)args[1]);
	uint64_t gid[2];
	if (!qp || qp->nic != args[0] || qp->type != QPT_UD || !(args[2] & GROUP_LID))
		return -EINVAL;
	name_of((uint32_t)args[2], args + 3, gid);
	return op == OP_ATTACH ? attach(qp, gid) : detach(qp, gid);
}

void real_name_group(struct ah *ah, const int64_t words[2]) { name_of(ah->lid, words, ah->gid); }

/* Sends to all members. Who has no room for it misses it. */
void real_send_to_group(struct qp *qp, struct request *request)
{
	const uint64_t gid[2] = { request->remote, request->compare_add };
	for (uint32_t i = 0; i < MOST_GROUPS; i++)
		for (uint32_t m = 0; is_called(&groups()[i], gid) && m < MOST_MEMBERS; m++) {
			uint32_t number = atomic_load_explicit(&groups()[i].member[m], memory_order_relaxed);
			request->number = i + 1;
			if (number && !(number == qp->number && qp->not_to_itself))
				real_datagram_to(qp, request, number);
		}
}

/* The members that a process was. */
void real_leave_groups(uint32_t process)
{
	for (uint32_t i = 0; i < MOST_GROUPS; i++)
		for (uint32_t m = 0; atomic_load(&groups()[i].state) == USED && m < MOST_MEMBERS; m++) {
			uint32_t number = atomic_load(&groups()[i].member[m]);
			const struct real_pair *pair = number ? real_pair_of(number) : NULL;
			if (number && (!pair || atomic_load(&pair->process) == process + 1))
				atomic_store(&groups()[i].member[m], 0);
		}
}
