/* The receiving side: messages out of the rings into receives, and what their senders hear. */
#define _GNU_SOURCE
#include "real.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRH_BYTES 40u
/* Messages of which senders have not heard at the most, while more come. */
#define MOST_OWED 32
/* Messages that are taken before the program sees any. */
#define AT_ONCE 64

/* ---- receives ---- */

bool real_prepare(struct receives *queue, uint32_t cap, uint32_t max_sge)
{
	*queue = (struct receives){ .cap = cap, .max_sge = max_sge, .room = 1 };
	while (queue->room < cap)
		queue->room *= 2;
	queue->of = malloc(queue->room * sizeof *queue->of);
	queue->sge = malloc((queue->room * (size_t)max_sge + 1) * sizeof *queue->sge);
	return queue->of && queue->sge;
}
void real_forget(struct receives *queue)
{
	free(queue->of);
	free(queue->sge);
}

int64_t real_post_receive(struct receives *queue, const uint64_t *post)
{
	uint32_t count = (uint32_t)post[4];
	if (queue->posted - queue->freed >= queue->cap)
		return ENOMEM;
	if (count > queue->max_sge)
		return EINVAL;
	uint32_t place = queue->posted++ & (queue->room - 1);
	queue->of[place] = (struct receive){ post[3], count };
	struct sge *list = queue->sge + place * (size_t)queue->max_sge;
	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct sge){ post[RECV_WORDS + 2 * i], (uint32_t)post[RECV_WORDS + 2 * i + 1],
					(uint32_t)(post[RECV_WORDS + 2 * i + 1] >> 32) };
	return 0;
}

struct taken {
	uint64_t wr_id;
	uint32_t count;
	const struct sge *list;
};

static bool take_receive(struct qp *qp, struct taken *to)
{
	struct receives *queue = qp->srq ? &qp->srq->queue : &qp->queue;
	if (queue->taken == queue->posted)
		return false;
	uint32_t place = queue->taken++ & (queue->room - 1);
	*to = (struct taken){ queue->of[place].wr_id, queue->of[place].count, queue->sge + place * (size_t)queue->max_sge };
	if (qp->srq && qp->srq->limit && queue->posted - queue->taken < qp->srq->limit) {
		qp->srq->limit = 0;
		real_async(qp->nic, EVENT_SRQ_LIMIT, qp->srq->id);
	}
	return true;
}

static void fail_receive(struct qp *qp, const struct taken *of, uint32_t status)
{
	struct completion wc = real_wc(qp, of->wr_id, status, WC_RECV, 0);
	real_complete(qp->recv_cq, &wc, false);
}

/* Those of a shared queue stay there for others. */
void real_flush_receives(struct qp *qp)
{
	struct taken one;
	while (!qp->srq && take_receive(qp, &one))
		fail_receive(qp, &one, STATUS_FLUSHED);
}

/* ---- what senders hear ---- */

static void owe(struct qp *qp)
{
	real_adapter.owed++;
	qp->owes = true;
	for (struct qp *one = real_adapter.owing; one; one = one->owes_next)
		if (one == qp)
			return;
	qp->owes_next = real_adapter.owing;
	real_adapter.owing = qp;
}

static void acknowledge(struct qp *qp)
{
	struct real_pair *peer = real_pair_of(qp->shared->peer);
	uint32_t process = peer ? atomic_load(&peer->process) - 1 : UINT32_MAX;
	if (qp->owes && process < MOST_PROCESSES) {
		atomic_store_explicit(&peer->acked, qp->expected, memory_order_release);
		real_wake(process);
	}
	qp->owes = false;
}

/* Acknowledgements travel with what goes the other way; when nothing does, they are written now. */
void real_pay(void)
{
	while (real_adapter.owing) {
		struct qp *qp = real_adapter.owing;
		real_adapter.owing = qp->owes_next;
		acknowledge(qp);
	}
	real_adapter.owed = 0;
}

void real_stop_owing(struct qp *qp)
{
	struct qp **at = &real_adapter.owing;
	acknowledge(qp);
	while (*at && *at != qp)
		at = &(*at)->owes_next;
	if (*at)
		*at = qp->owes_next;
}

static void refuse(struct qp *qp, enum real_nak kind, uint32_t what)
{
	struct real_pair *peer = real_pair_of(qp->shared->peer);
	uint32_t process = peer ? atomic_load(&peer->process) - 1 : UINT32_MAX;
	if (process >= MOST_PROCESSES || qp->type != QPT_RC)
		return;
	atomic_store(&peer->nak, (uint64_t)qp->expected << 32 | what << 8 | kind);
	real_wake(process);
}

/* ---- messages ---- */

struct message {
	const struct real_slot *slot;
	const uint8_t *bytes;
	uint32_t process;
};

static void scatter(const struct sge *list, uint32_t count, uint32_t skip, const uint8_t *from, uint32_t length)
{
	for (uint32_t i = 0; i < count && length; i++) {
		uint32_t before = skip < list[i].length ? skip : list[i].length, part = list[i].length - before;
		part = part < length ? part : length;
		memcpy((uint8_t *)(uintptr_t)list[i].addr + before, from, part);
		skip -= before;
		from += part;
		length -= part;
	}
}

/* 0, or the status of a receive that the message does not fit. */
static uint32_t misfit(const struct qp *qp, const struct taken *into, uint32_t bytes)
{
	uint64_t room = 0;
	for (uint32_t i = 0; i < into->count; i++) {
		const struct sge *one = &into->list[i];
		if (!real_may(real_adapter.number, qp->pd, one->lkey, one->addr, one->length, ACCESS_LOCAL_WRITE))
			return STATUS_PROTECTION;
		room += one->length;
	}
	return room < bytes ? STATUS_LENGTH : 0;
}

static void complete(struct qp *qp, const struct taken *into, const struct message *of, uint32_t bytes, uint32_t opcode)
{
	const struct real_slot *slot = of->slot;
	struct completion wc = real_wc(qp, into->wr_id, STATUS_OK, opcode, 0);
	bool has_imm = slot->flags & MESSAGE_HAS_IMM, grh = slot->kind == MESSAGE_DATAGRAM;
	wc.word[2] = (uint64_t)bytes << 32;
	wc.word[3] |= has_imm ? slot->imm : 0;
	wc.word[4] = (grh ? slot->from : 0) | (uint64_t)((grh ? WC_GRH : 0) | (has_imm ? WC_WITH_IMM : 0)) << 32;
	wc.word[5] = grh ? ((slot->lid + 1) & 0xffff) | (uint64_t)slot->sl << 16 : 0;
	real_complete(qp->recv_cq, &wc, slot->flags & MESSAGE_SOLICITED);
}

static void establish(struct qp *qp)
{
	if (!qp->established && atomic_load(&qp->shared->state) == QPS_RTR)
		real_async(qp->nic, EVENT_ESTABLISHED, qp->number);
	qp->established = true;
}

/* Puts the bytes where the receive wants them; false where the sender is no more. */
static bool place(const struct taken *into, const struct message *of)
{
	const struct real_slot *slot = of->slot;
	if (slot->kind == MESSAGE_WRITE_IMM)
		return true;
	if (slot->length <= EAGER_BYTES) {
		scatter(into->list, into->count, 0, of->bytes, slot->length);
		return true;
	}
	return real_fetch(of->process, into->list, into->count, (const uint64_t *)of->bytes, slot->pieces, slot->length) == 0;
}

/* A receive that does not fit ends, and its queue pair with it. */
static void broken(struct qp *qp, const struct taken *into, uint32_t status)
{
	fail_receive(qp, into, status);
	refuse(qp, NAK_STATUS, status == STATUS_LENGTH ? STATUS_REMOTE_INVALID : STATUS_REMOTE_OPERATION);
	real_enter_error(qp);
}

static void receive(struct qp *qp, const struct message *of)
{
	const struct real_slot *slot = of->slot;
	struct taken into;
	establish(qp);
	if (!take_receive(qp, &into)) {
		/* The sender begins again here: what comes until then has other numbers, and is not taken. */
		refuse(qp, NAK_NOT_READY, (uint32_t)real_attr(qp, QP_MIN_RNR_TIMER));
		qp->expected += qp->type == QPT_UC;
		return;
	}
	uint32_t status = slot->kind == MESSAGE_WRITE_IMM ? 0 : misfit(qp, &into, slot->length);
	if (status) {
		broken(qp, &into, status);
		return;
	}
	qp->expected++;
	if (!place(&into, of)) {
		fail_receive(qp, &into, STATUS_FLUSHED);
		return;
	}
	complete(qp, &into, of, slot->length, slot->kind == MESSAGE_WRITE_IMM ? WC_RECV_RDMA_WITH_IMM : WC_RECV);
}

static void take_message(const struct message *of)
{
	const struct real_slot *slot = of->slot;
	struct qp *qp = real_qp(slot->to);
	uint32_t state = qp ? atomic_load_explicit(&qp->shared->state, memory_order_relaxed) : QPS_RESET;
	if (!qp || (state != QPS_RTR && state != QPS_RTS && state != QPS_SQD && state != QPS_SQE) || qp->shared->peer != slot->from)
		return;
	if (qp->type == QPT_RC)
		real_acked(qp, slot->acked);
	if (qp->type == QPT_UC)
		qp->expected = slot->number;
	/* One that came before is only told again that it did; one that is ahead will come again. */
	if (slot->number == qp->expected)
		receive(qp, of);
	if ((int32_t)(slot->number - qp->expected) < 0 && atomic_load(&qp->shared->state) != QPS_ERR &&
	    (qp->type == QPT_RC || slot->length > EAGER_BYTES))
		owe(qp);
}

/* ---- datagrams ---- */

static void put_gid(const struct qp *qp, uint32_t lid, uint8_t *to)
{
	struct live_device_info device = *real_device(qp->nic);
	union abi_gid gid;
	uint32_t type;
	/* GUIDs end with the number of the port. */
	device.guid += lid - device.lid;
	device.lid = lid;
	live_fill_gid(&device, device.link_layer == LINK_ETHERNET ? 2 : 0, &gid, &type);
	memcpy(to, gid.raw, sizeof gid.raw);
}

/* Version, length with all headers and the check, next header, hops. Source: IBA vol. 1 §8.3. */
static void fill_header(const struct qp *qp, const struct real_slot *slot, uint8_t header[GRH_BYTES])
{
	uint32_t bytes = slot->length + 12 + 8 + 4;
	memset(header, 0, GRH_BYTES);
	header[0] = 6 << 4;
	header[4] = (uint8_t)(bytes >> 8);
	header[5] = (uint8_t)bytes;
	header[6] = 0x1b;
	header[7] = 0xff;
	put_gid(qp, slot->lid, header + 8);
	put_gid(qp, qp->shared->lid, header + 24);
	if (slot->number) {
		const uint64_t *gid = real_adapter.fabric->group[slot->number - 1].gid;
		memcpy(header + 24, (const uint64_t[2]){ htobe64(gid[0]), htobe64(gid[1]) }, 16);
	}
}

static void take_datagram(const struct message *of)
{
	const struct real_slot *slot = of->slot;
	struct qp *qp = real_qp(slot->to);
	uint32_t state = qp ? atomic_load_explicit(&qp->shared->state, memory_order_relaxed) : QPS_RESET, bytes = slot->length + GRH_BYTES;
	struct taken into;
	uint8_t header[GRH_BYTES];
	if (!qp || qp->type != QPT_UD || state == QPS_RESET || state == QPS_INIT || state == QPS_ERR || qp->shared->qkey != slot->qkey ||
	    !take_receive(qp, &into))
		return;
	establish(qp);
	uint32_t status = misfit(qp, &into, bytes);
	if (status) {
		fail_receive(qp, &into, status);
		real_enter_error(qp);
		return;
	}
	fill_header(qp, slot, header);
	scatter(into.list, into.count, 0, header, sizeof header);
	scatter(into.list, into.count, GRH_BYTES, of->bytes, slot->length);
	complete(qp, &into, of, bytes, WC_RECV);
}

/* ---- rings ---- */

static bool drain(uint32_t process)
{
	struct real_ring *ring = &real_adapter.fabric->ring[process][real_adapter.number];
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed), taken = 0;
	for (; taken < AT_ONCE; taken++, tail++) {
		const struct real_slot *slot = &ring->slot[tail % RING_SLOTS];
		if (atomic_load_explicit(&slot->turn, memory_order_acquire) != tail + 1)
			break;
		uint32_t length = slot->kind == MESSAGE_WRITE_IMM ? 0 : slot->length;
		struct message of = { slot, length <= SLOT_BYTES ? slot->bytes : ring->bytes + slot->place % RING_BYTES, process };
		if (slot->kind == MESSAGE_DATAGRAM)
			take_datagram(&of);
		else
			take_message(&of);
		atomic_store_explicit(&ring->byte_tail, slot->end, memory_order_release);
		atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
		if (real_adapter.owed >= MOST_OWED)
			real_pay();
	}
	return taken > 0;
}

bool real_drain(void)
{
	bool found = false;
	for (uint32_t word = 0; word < MOST_PROCESSES / 64; word++) {
		uint64_t senders = atomic_load_explicit(&real_adapter.me->senders[word], memory_order_relaxed);
		for (; senders; senders &= senders - 1)
			found |= drain(word * 64 + (uint32_t)__builtin_ctzll(senders));
	}
	return found;
}
