/* Memory regions. Requests name the bytes of a region from its address on, or from `iova` where it was registered with one: in the local pieces of
 * a request this is undone here, in what peers ask for by whoever answers them. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "verbs.h"

#include <string.h>

/* Where a region lies that has no memory: no process has any there. Reading gives zeros, what is written is lost. */
#define NOWHERE (1ull << 62)
/* No piece of a request is longer. */
#define LONGEST_PIECE (1ull << 32)

/* Regions that requests name by other addresses than their own. Entries stay for ever and are used again, so that a thread that posts can go
 * through them while others register. */
struct moved {
	_Atomic uint64_t key; /* of its adapter in the upper half; 0: nobody's */
	uint64_t shift;
	bool nowhere;
	struct moved *next;
};
static struct moved *_Atomic moved;
bool live_any_moved;

static uint64_t key_of(uint32_t nic, uint32_t lkey) { return (uint64_t)(nic + 1) << 32 | lkey; }

static struct moved *moved_at(uint64_t key)
{
	struct moved *at = moved;
	while (at && atomic_load_explicit(&at->key, memory_order_acquire) != key)
		at = at->next;
	return at;
}

uint64_t live_place_in(uint32_t nic, uint32_t lkey, uint64_t addr)
{
	const struct moved *of = moved_at(key_of(nic, lkey));
	return !of ? addr : of->nowhere ? NOWHERE : addr + of->shift;
}

static void forget_moved(uint32_t nic, uint32_t lkey)
{
	struct moved *of = live_any_moved ? moved_at(key_of(nic, lkey)) : NULL;
	if (of)
		atomic_store(&of->key, 0);
}

static bool remember_moved(uint32_t nic, uint32_t lkey, uint64_t shift, bool nowhere)
{
	struct moved *made = malloc(sizeof *made);
	uint64_t key = key_of(nic, lkey);
	for (struct moved *at = moved; at; at = at->next) {
		/* Held under a key that no region has until it is filled. */
		uint64_t nobody = 0;
		if (!atomic_compare_exchange_strong(&at->key, &nobody, UINT64_MAX))
			continue;
		at->shift = shift;
		at->nowhere = nowhere;
		atomic_store(&at->key, key);
		free(made);
		return true;
	}
	if (!made)
		return false;
	*made = (struct moved){ key, shift, nowhere, moved };
	while (!atomic_compare_exchange_weak(&moved, &made->next, made))
		;
	return live_any_moved = true;
}

/* Registers a region, whose memory the fabric shares, or gives the region of `key` this range and these rights. */
static int64_t register_at(enum live_op op, struct abi_pd *pd, uintptr_t addr, size_t length, uint64_t iova, unsigned access, uint32_t key)
{
	if (!live_answers())
		return -EIO;
	size_t words = 0;
	int file = live_mine && addr != NOWHERE ? live_share(addr, length, (uint64_t *)live_question(), &words) : -1;
	const int64_t args[8] = { nic_of(pd->context), pd->handle, (int64_t)addr, (int64_t)length, access, file, key, (int64_t)iova };
	return live_ask_with(op, args, words * sizeof(uint64_t));
}

static struct abi_mr *register_memory(struct abi_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	access &= ~(unsigned)ACCESS_OPTIONAL;
	if (access & ACCESS_ON_DEMAND)
		return live_failed(-EOPNOTSUPP, NULL);
	if (access & ACCESS_ZERO_BASED)
		iova = 0;
	access &= ~(unsigned)ACCESS_ZERO_BASED;
	int64_t key = register_at(OP_REG_MR, pd, (uintptr_t)addr, length, iova, access, 0);
	struct live_mr *mr = key < 0 ? NULL : calloc(1, sizeof *mr);
	if (!mr)
		return live_failed(key, mr);
	*mr = (struct live_mr){ { pd->context, pd, addr, length, (uint32_t)key, (uint32_t)key, (uint32_t)key }, access, iova };
	uint64_t shift = (uintptr_t)addr - iova;
	if (shift && !remember_moved(nic_of(pd->context), mr->mr.lkey, shift, false)) {
		LIVE_ASK(OP_DEREG_MR, nic_of(pd->context), mr->mr.lkey);
		return live_failed(-ENOMEM, mr);
	}
	if (access & ACCESS_REMOTE_WRITE)
		live_guard((uintptr_t)addr, length);
	return &mr->mr;
}

struct abi_mr *ibv_reg_mr(struct abi_pd *pd, void *addr, size_t length, int access)
{
	return register_memory(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}
struct abi_mr *ibv_reg_mr_iova(struct abi_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return register_memory(pd, addr, length, iova, (unsigned)access);
}
struct abi_mr *ibv_reg_mr_iova2(struct abi_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	return register_memory(pd, addr, length, iova, access);
}
struct abi_mr *ibv_reg_dmabuf_mr(struct abi_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return live_failed(-EOPNOTSUPP, NULL);
}

/* Its key opens any address to local requests, and none to peers. */
struct abi_mr *live_alloc_null_mr(struct abi_pd *pd)
{
	if (live_real)
		return live_failed(-EOPNOTSUPP, NULL);
	int64_t key = register_at(OP_REG_MR, pd, NOWHERE, LONGEST_PIECE, NOWHERE, ACCESS_LOCAL_WRITE, 0);
	struct live_mr *mr = key < 0 ? NULL : calloc(1, sizeof *mr);
	if (!mr || !remember_moved(nic_of(pd->context), (uint32_t)key, 0, true))
		return live_failed(key, mr);
	*mr = (struct live_mr){ { pd->context, pd, NULL, SIZE_MAX, (uint32_t)key, (uint32_t)key, (uint32_t)key }, ACCESS_LOCAL_WRITE, 0 };
	return &mr->mr;
}

/* The keys stay; where it cannot be, so does all else. */
int ibv_rereg_mr(struct abi_mr *mr, int flags, struct abi_pd *pd, void *addr, size_t length, int access)
{
	struct live_mr *own = (struct live_mr *)mr;
	if (flags & ~(REREG_TRANSLATION | REREG_PD | REREG_ACCESS) || !flags || (flags & REREG_TRANSLATION && (!length || !addr)) ||
	    mr->length == SIZE_MAX)
		return errno = EINVAL, REREG_ERR_INPUT;
	uint64_t iova = flags & REREG_TRANSLATION ? (uintptr_t)addr : own->iova;
	if (!(flags & REREG_TRANSLATION)) {
		addr = mr->addr;
		length = mr->length;
	}
	if (!(flags & REREG_PD))
		pd = mr->pd;
	unsigned rights = flags & REREG_ACCESS ? (unsigned)access & ~(unsigned)ACCESS_OPTIONAL : own->access;
	int64_t result = register_at(OP_REREG_MR, pd, (uintptr_t)addr, length, iova, rights, mr->lkey);
	if (result < 0)
		return errno = (int)-result, REREG_ERR_CMD;
	if (iova == (uintptr_t)addr)
		forget_moved(nic_of(mr->context), mr->lkey);
	live_unguard((uintptr_t)mr->addr, mr->length);
	if (rights & ACCESS_REMOTE_WRITE)
		live_guard((uintptr_t)addr, length);
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	own->access = rights;
	own->iova = iova;
	return 0;
}

int ibv_dereg_mr(struct abi_mr *mr)
{
	live_unguard((uintptr_t)mr->addr, mr->length);
	int error = live_answers() ? live_code(LIVE_ASK(OP_DEREG_MR, nic_of(mr->context), mr->lkey)) : 0;
	if (error)
		return error;
	forget_moved(nic_of(mr->context), mr->lkey);
	free(mr);
	return 0;
}
