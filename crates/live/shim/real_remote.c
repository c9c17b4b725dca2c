/* What a queue pair does to the memory of its peer: WRITE, READ and atomics, at once and without the peer's program.
 *
 * The kernel copies between the processes. Each request is done whole before the next begins, as in the order of the queue. Atomics on
 * the memory of a process exclude each other; what its program does to the same words at the same time they do not see, which is what
 * IBV_ATOMIC_HCA promises. */
#define _GNU_SOURCE
#include "real.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define ATOMIC_BYTES 8u

static pid_t pid_of(uint32_t process) { return (pid_t)atomic_load(&real_adapter.fabric->process[process].pid); }

/* The kernel says of a process without memory that it is not there, also where its parent has not asked for its status yet. */
bool real_has_memory(pid_t pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };
	return pid && (live_syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0) >= 0 || errno != ESRCH);
}

bool real_is_alive(uint32_t process) { return real_has_memory(pid_of(process)); }

bool real_is_ready(const struct qp *qp, const struct real_pair *peer)
{
	if (!peer || !atomic_load_explicit(&peer->process, memory_order_relaxed))
		return false;
	uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);
	return (state == QPS_RTR || state == QPS_RTS || state == QPS_SQD) && peer->lid == qp->shared->peer_lid && peer->peer == qp->number &&
	       peer->type == qp->type;
}

static void forbidden(void)
{
	static bool told;
	if (!told)
		real_tell("this machine forbids processes to read each other's memory (process_vm_readv), which --time real needs");
	told = true;
}

/* Copies between pieces here and there; 0, or an error number. */
static int copy(long call, uint32_t process, struct iovec *here, unsigned count, struct iovec *there, unsigned pieces, uint64_t length)
{
	while (length) {
		long done = live_syscall(call, pid_of(process), here, count, there, pieces, 0);
		if (done <= 0) {
			int error = done < 0 ? errno : EFAULT;
			if (error == EPERM || error == ENOSYS)
				forbidden();
			return error;
		}
		length -= (uint64_t)done;
		for (int side = 0; side < 2; side++) {
			struct iovec **at = side ? &there : &here;
			unsigned *left = side ? &pieces : &count;
			size_t part = (size_t)done;
			for (; *left && part >= (*at)->iov_len; ++*at, --*left)
				part -= (*at)->iov_len;
			if (*left) {
				(*at)->iov_base = (char *)(*at)->iov_base + part;
				(*at)->iov_len -= part;
			}
		}
	}
	return 0;
}

static unsigned pieces_of(const struct sge *list, uint32_t count, uint64_t length, struct iovec *to)
{
	unsigned used = 0;
	for (uint32_t i = 0; i < count && length; i++) {
		size_t part = list[i].length < length ? list[i].length : length;
		if (part)
			to[used++] = (struct iovec){ (void *)(uintptr_t)list[i].addr, part };
		length -= part;
	}
	return used;
}

long real_fetch(uint32_t process, const struct sge *into, uint32_t count, const uint64_t *from, uint32_t pieces, uint64_t length)
{
	struct iovec here[MOST_PIECES], there[MOST_PIECES];
	for (uint32_t i = 0; i < pieces; i++)
		there[i] = (struct iovec){ (void *)(uintptr_t)from[2 * i], (size_t)from[2 * i + 1] };
	return copy(SYS_process_vm_readv, process, here, pieces_of(into, count, length, here), there, pieces, length);
}

/* ---- atomics ---- */

static void exclude(struct real_process *of)
{
	uint32_t self = real_adapter.number + 1;
	for (uint32_t tries = 1, holder = 0; !atomic_compare_exchange_strong(&of->atomics, &holder, self); tries++) {
		/* Whoever died in the middle does not go on. */
		if (tries % 1024 == 0 && holder && !real_is_alive(holder - 1))
			atomic_compare_exchange_strong(&of->atomics, &holder, 0);
		live_syscall(SYS_sched_yield);
		holder = 0;
	}
}

static int atomic_operation(uint32_t process, const struct request *request, uint64_t at, uint64_t *old)
{
	struct real_process *of = &real_adapter.fabric->process[process];
	struct iovec here = { old, ATOMIC_BYTES }, there = { (void *)(uintptr_t)at, ATOMIC_BYTES };
	exclude(of);
	int error = copy(SYS_process_vm_readv, process, &here, 1, &there, 1, ATOMIC_BYTES);
	uint64_t made = request->opcode == WR_ATOMIC_FETCH_AND_ADD ? *old + request->compare_add : request->swap;
	if (!error && (request->opcode == WR_ATOMIC_FETCH_AND_ADD || *old == request->compare_add)) {
		here = (struct iovec){ &made, ATOMIC_BYTES };
		there = (struct iovec){ (void *)(uintptr_t)at, ATOMIC_BYTES };
		error = copy(SYS_process_vm_writev, process, &here, 1, &there, 1, ATOMIC_BYTES);
	}
	atomic_store(&of->atomics, 0);
	return error;
}

/* ---- requests ---- */

static uint32_t right_of(uint32_t opcode)
{
	return opcode == WR_RDMA_READ ? ACCESS_REMOTE_READ : opcode < WR_SEND ? ACCESS_REMOTE_WRITE : ACCESS_REMOTE_ATOMIC;
}

/* The peer refuses, and its queue pair is broken; one without acknowledgements does not say so. */
static int refused(struct qp *qp, struct real_pair *peer, uint32_t event, int status)
{
	if (qp->type == QPT_UC)
		return 0;
	uint32_t process = atomic_load(&peer->process) - 1;
	atomic_store(&peer->broken, event);
	atomic_store(&real_adapter.fabric->process[process].attention, 1);
	real_wake(process);
	return status;
}

/* At the address `at` of the peer. */
static int carry_out(struct qp *qp, const struct request *request, uint32_t process, uint64_t at)
{
	const struct sge *list = (const struct sge *)(request + 1);
	struct iovec here[MOST_PIECES], there = { (void *)(uintptr_t)at, request->length };
	if (request->opcode >= WR_ATOMIC_CMP_AND_SWP) {
		uint64_t old;
		int error = atomic_operation(process, request, at, &old);
		if (!error)
			memcpy((void *)(uintptr_t)list->addr, &old, sizeof old);
		return error;
	}
	if (!request->length)
		return 0;
	unsigned count = pieces_of(list, request->count, request->length, here);
	if (request->flags & SEND_INLINE) {
		here[0] = (struct iovec){ (uint8_t *)(uintptr_t)(list + qp->max_send_sge), request->length };
		count = 1;
	}
	long call = request->opcode == WR_RDMA_READ ? SYS_process_vm_readv : SYS_process_vm_writev;
	return copy(call, process, here, count, &there, 1, request->length);
}

int real_one_sided(struct qp *qp, const struct request *request)
{
	struct real_pair *peer = real_pair_of(qp->shared->peer);
	uint32_t process = atomic_load(&peer->process) - 1, right = right_of(request->opcode);
	bool atomic = request->opcode >= WR_ATOMIC_CMP_AND_SWP;
	if (process >= MOST_PROCESSES)
		return -1;
	if (atomic && request->remote % ATOMIC_BYTES)
		return refused(qp, peer, EVENT_QP_REQUEST, STATUS_REMOTE_INVALID);
	uint64_t at = real_place_in(request->rkey, request->remote);
	if (!(peer->access & right) || !real_may(process, peer->pd, request->rkey, at, request->length, right))
		return refused(qp, peer, EVENT_QP_ACCESS, STATUS_REMOTE_ACCESS);
	switch (carry_out(qp, request, process, at)) {
	case 0:
		return 0;
	case ESRCH:
		return -1;
	default:
		return refused(qp, peer, EVENT_QP_ACCESS, STATUS_REMOTE_OPERATION);
	}
}
