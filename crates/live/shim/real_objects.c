/* Domains, regions, completion queues, shared receive queues and addresses of a process. */
#define _GNU_SOURCE
#include "real.h"
#include "parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MOST_WR 32768
#define MOST_SGE 256

/* Objects by their numbers, which are not used again. */
struct table {
	void **of;
	uint32_t count, room;
};
static struct table domains, queues, shared, addresses;

struct domain {
	uint32_t nic, users;
};

static int64_t insert(struct table *in, void *object)
{
	if (!object)
		return -ENOMEM;
	if (in->count == in->room) {
		uint32_t room = in->room ? 2 * in->room : 64;
		void **more = realloc(in->of, room * sizeof *more);
		if (!more)
			return free(object), -ENOMEM;
		in->of = more;
		in->room = room;
	}
	in->of[in->count] = object;
	return in->count++;
}

static void *find(const struct table *in, uint32_t number) { return number < in->count ? in->of[number] : NULL; }

static int64_t drop(struct table *from, uint32_t number)
{
	free(from->of[number]);
	from->of[number] = NULL;
	return 0;
}

/* What the table leads to stays: other threads of a parent may have been in the middle of it. */
void real_leave_objects(void) { domains.count = queues.count = shared.count = addresses.count = 0; }

#define FINDER(type, name, table)                                            \
	struct type *name(uint32_t nic, uint32_t id)                         \
	{                                                                    \
		struct type *found = find(&table, id);                       \
		return found && found->nic == nic ? found : NULL;            \
	}
static FINDER(domain, domain, domains)
FINDER(cq, real_cq, queues)
FINDER(srq, real_srq, shared)
FINDER(ah, real_ah, addresses)

/* ---- protection domains ---- */

static int64_t alloc_pd(uint32_t nic)
{
	struct domain *made = calloc(1, sizeof *made);
	if (made)
		made->nic = nic;
	return insert(&domains, made);
}
static int64_t dealloc_pd(uint32_t nic, uint32_t id)
{
	struct domain *of = domain(nic, id);
	return !of ? -EINVAL : of->users ? -EBUSY : drop(&domains, id);
}

bool real_use_pd(uint32_t nic, uint32_t pd, int more)
{
	struct domain *of = domain(nic, pd);
	if (of)
		of->users += (uint32_t)more;
	return of != NULL;
}

/* ---- regions: in the table that all processes see. The lower half of a key is the place there. ---- */

static bool may_be(uint64_t from, uint64_t length, uint32_t access)
{
	bool changed = access & (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC);
	return length && from + length - 1 >= from && (!changed || access & ACCESS_LOCAL_WRITE);
}

static struct real_mr *region(uint32_t key)
{
	struct real_mr *at = &real_adapter.fabric->mr[key % MOST_MRS];
	return key && atomic_load_explicit(&at->key, memory_order_acquire) == key ? at : NULL;
}

static struct real_mr *free_region(uint32_t *key)
{
	static uint32_t generation, hint;
	struct real_fabric *fabric = real_adapter.fabric;
	for (uint32_t i = 0; i < MOST_MRS; i++) {
		uint32_t place = (hint + i) % MOST_MRS, nobody = 0;
		*key = (++generation & 0x7fff) << 17 | 1u << 16 | place;
		/* Held under a key that nobody can have until it is filled. */
		if (atomic_load(&fabric->mr[place].key) || !atomic_compare_exchange_strong(&fabric->mr[place].key, &nobody, UINT32_MAX))
			continue;
		hint = place + 1;
		for (uint32_t most = atomic_load(&fabric->mrs); most <= place && !atomic_compare_exchange_weak(&fabric->mrs, &most, place + 1);)
			;
		return &fabric->mr[place];
	}
	return NULL;
}

static int64_t reg_mr(uint32_t nic, const int64_t args[8])
{
	uint64_t from = (uint64_t)args[2], length = (uint64_t)args[3];
	uint32_t pd = (uint32_t)args[1], access = (uint32_t)args[4], key;
	if (!may_be(from, length, access) || !domain(nic, pd))
		return -EINVAL;
	struct real_mr *made = free_region(&key);
	if (!made)
		return -ENOMEM;
	made->process = real_adapter.number;
	made->pd = pd;
	made->access = access;
	made->from = from;
	made->length = length;
	made->shift = from - (uint64_t)args[7];
	atomic_store_explicit(&made->key, key, memory_order_release);
	real_use_pd(nic, pd, 1);
	return key;
}

static struct real_mr *own_region(uint32_t key)
{
	struct real_mr *of = region(key);
	return of && of->process == real_adapter.number ? of : NULL;
}

static int64_t rereg_mr(uint32_t nic, const int64_t args[8])
{
	struct real_mr *of = own_region((uint32_t)args[6]);
	uint64_t from = (uint64_t)args[2], length = (uint64_t)args[3];
	if (!of || !domain(nic, (uint32_t)args[1]) || !may_be(from, length, (uint32_t)args[4]))
		return -EINVAL;
	real_use_pd(nic, of->pd, -1);
	real_use_pd(nic, (uint32_t)args[1], 1);
	of->pd = (uint32_t)args[1];
	of->access = (uint32_t)args[4];
	of->from = from;
	of->length = length;
	of->shift = from - (uint64_t)args[7];
	return of->key;
}

static int64_t dereg_mr(uint32_t nic, uint32_t key)
{
	struct real_mr *of = own_region(key);
	if (!of)
		return -EINVAL;
	real_use_pd(nic, of->pd, -1);
	atomic_store(&of->key, 0);
	return 0;
}

/* Where the byte lies that peers call `addr`. */
uint64_t real_place_in(uint32_t key, uint64_t addr)
{
	const struct real_mr *of = region(key);
	return of ? addr + of->shift : addr;
}

bool real_may(uint32_t process, uint32_t pd, uint32_t key, uint64_t from, uint64_t length, uint32_t right)
{
	if (!length)
		return true;
	const struct real_mr *of = region(key);
	return of && of->process == process && of->pd == pd && (of->access & right) == right && from >= of->from && length <= of->length &&
	       from - of->from <= of->length - length;
}

/* ---- queues ---- */

static int64_t create_cq(uint32_t nic, const int64_t args[8])
{
	struct cq *made = calloc(1, sizeof *made);
	uint32_t depth = (uint32_t)args[1];
	struct channel *channel = args[2] < 0 ? NULL : real_channel(args[2]);
	if (!made || !depth || (args[2] >= 0 && !channel))
		return free(made), made ? -EINVAL : -ENOMEM;
	*made = (struct cq){ .nic = nic, .depth = depth, .room = 16, .channel = channel, .own_name = args[3] };
	made->kept = malloc(made->room * sizeof *made->kept);
	if (!made->kept)
		return free(made), -ENOMEM;
	int64_t id = insert(&queues, made);
	if (id >= 0)
		made->id = (uint32_t)id;
	return id;
}

static int64_t destroy_cq(uint32_t nic, uint32_t id)
{
	struct cq *of = real_cq(nic, id);
	if (!of)
		return -EINVAL;
	if (of->users)
		return -EBUSY;
	real_leave_channel(of);
	real_forget_async(nic, 0, id);
	free(of->kept);
	return drop(&queues, id);
}

static int64_t create_srq(uint32_t nic, const int64_t args[8])
{
	uint32_t pd = (uint32_t)args[1], cap = (uint32_t)args[2], max_sge = (uint32_t)args[3];
	if (args[4] >= 0 || args[5] >= 0)
		return -EOPNOTSUPP; /* of extended connections */
	if (!domain(nic, pd) || cap < 1 || cap > MOST_WR || max_sge < 1 || max_sge > MOST_SGE)
		return -EINVAL;
	struct srq *made = calloc(1, sizeof *made);
	if (!made || !real_prepare(&made->queue, cap, max_sge))
		return free(made), -ENOMEM;
	made->nic = nic;
	made->pd = pd;
	int64_t id = insert(&shared, made);
	if (id < 0)
		return id;
	made->id = (uint32_t)id;
	real_use_pd(nic, pd, 1);
	return id;
}

static int64_t destroy_srq(uint32_t nic, uint32_t id)
{
	struct srq *of = real_srq(nic, id);
	if (!of)
		return -EINVAL;
	if (of->users)
		return -EBUSY;
	real_use_pd(nic, of->pd, -1);
	real_forget_async(nic, EVENT_SRQ_LIMIT, id);
	real_forget(&of->queue);
	return drop(&shared, id);
}

static int64_t limit_srq(uint32_t nic, uint32_t id, uint32_t limit)
{
	struct srq *of = real_srq(nic, id);
	if (of)
		of->limit = limit;
	return of ? 0 : -EINVAL;
}

/* ---- addresses ---- */

static int64_t create_ah(uint32_t nic, const int64_t args[8])
{
	if (args[3] < 0 || args[3] > 15 || !real_use_pd(nic, (uint32_t)args[1], 1))
		return -EINVAL;
	struct ah *made = malloc(sizeof *made);
	if (made) {
		*made = (struct ah){ nic, (uint32_t)args[1], (uint32_t)args[2], (uint32_t)args[3], { 0, 0 } };
		real_name_group(made, args + 4);
	}
	return insert(&addresses, made);
}
static int64_t destroy_ah(uint32_t nic, uint32_t id)
{
	struct ah *of = real_ah(nic, id);
	if (!of)
		return -EINVAL;
	real_use_pd(nic, of->pd, -1);
	return drop(&addresses, id);
}

int64_t real_object(enum live_op op, int64_t args[8])
{
	uint32_t nic = (uint32_t)args[0], number = (uint32_t)args[1];
	switch (op) {
	case OP_ALLOC_PD:
		return alloc_pd(nic);
	case OP_DEALLOC_PD:
		return dealloc_pd(nic, number);
	case OP_REG_MR:
		return reg_mr(nic, args);
	case OP_REREG_MR:
		return rereg_mr(nic, args);
	case OP_DEREG_MR:
		return dereg_mr(nic, number);
	case OP_CREATE_CQ:
		return create_cq(nic, args);
	case OP_DESTROY_CQ:
		return destroy_cq(nic, number);
	case OP_NOTIFY_CQ:
		return real_notify(real_cq(nic, number), args[2] != 0);
	case OP_CREATE_CHANNEL:
		return args[2] ? real_create_async(nic, (int)args[1]) : real_create_channel((int)args[1]);
	case OP_DESTROY_CHANNEL:
		return args[2] ? real_forget_descriptor((int)args[1]) : real_destroy_channel(nic);
	case OP_CQ_EVENT:
		return real_take_event(nic, args[1] != 0);
	case OP_ASYNC_EVENT:
		return real_take_async(nic, args[1] != 0, &args[0]);
	case OP_CREATE_SRQ:
		return create_srq(nic, args);
	case OP_MODIFY_SRQ:
		return limit_srq(nic, number, (uint32_t)args[2]);
	case OP_DESTROY_SRQ:
		return destroy_srq(nic, number);
	case OP_CREATE_AH:
		return create_ah(nic, args);
	case OP_ATTACH:
	case OP_DETACH:
		return real_group(op, args);
	case OP_DESTROY_AH:
		return destroy_ah(nic, number);
	default:
		return -EOPNOTSUPP;
	}
}
