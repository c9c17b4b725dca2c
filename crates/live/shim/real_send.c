/* Send queues: posting, giving messages to the peer, and how requests end. */
#define _GNU_SOURCE
#include "real.h"

#include <errno.h>
#include <string.h>

#define ATOMIC_BYTES 8u
#define LONGEST (1u << 30)
#define LONGEST_DATAGRAM 4096u
/* A queue pair number of a datagram that says: take the key of the sender. Basis: standard, IBA vol. 1 §10.2.5. */
#define OWN_QKEY 0x80000000u
/* Shorter than this nobody waits for a peer: it may have lost its core, as no adapter does. Basis: assumed. */
#define LEAST_WAIT_NS 5000000u
/* Retries of who shall never give up. Basis: standard. */
#define FOR_EVER 7u

struct request *real_request(const struct qp *qp, uint32_t index)
{
	return (struct request *)(qp->requests + (index & (qp->room - 1)) * qp->stride);
}
static struct sge *pieces_of(const struct request *of) { return (struct sge *)(of + 1); }
static uint8_t *copied_to(const struct qp *qp, struct request *of) { return (uint8_t *)(pieces_of(of) + qp->max_send_sge); }

/* ---- requests that wait for a peer or for room ---- */

static void now_busy(struct qp *qp)
{
	if (qp->busy)
		return;
	qp->busy = true;
	qp->deadline = 0;
	qp->busy_next = real_adapter.busy;
	real_adapter.busy = qp;
}

void real_not_busy(struct qp *qp)
{
	struct qp **at = &real_adapter.busy;
	if (!qp->busy)
		return;
	while (*at != qp)
		at = &(*at)->busy_next;
	*at = qp->busy_next;
	qp->busy = false;
}

/* ---- how requests end ---- */

static uint32_t opcode_of(const struct request *request)
{
	static const uint8_t opcodes[] = { WC_RDMA_WRITE, WC_RDMA_WRITE, WC_SEND, WC_SEND, WC_RDMA_READ, WC_COMP_SWAP, WC_FETCH_ADD };
	return opcodes[request->opcode];
}

static void end_front(struct qp *qp, uint32_t status)
{
	const struct request *request = real_request(qp, qp->front);
	if (request->signaled || status) {
		struct completion wc = real_wc(qp, request->wr_id, status, opcode_of(request), qp->front);
		wc.word[2] = status ? 0 : (uint64_t)request->length << 32;
		real_complete(qp->send_cq, &wc, false);
	}
	qp->front++;
	if ((int32_t)(qp->next - qp->front) < 0)
		qp->next = qp->front;
}

void real_flush_sends(struct qp *qp)
{
	while (qp->front != qp->posted)
		end_front(qp, STATUS_FLUSHED);
	real_not_busy(qp);
}

/* The first request failed for good. Connections end with it; others only stop to send. */
void real_fail(struct qp *qp, uint32_t status)
{
	end_front(qp, status);
	if (qp->type == QPT_RC) {
		real_enter_error(qp);
	} else {
		atomic_store(&qp->shared->state, QPS_SQE);
		real_flush_sends(qp);
	}
}

static bool waits_for_peer(const struct qp *qp, const struct request *request)
{
	return qp->type == QPT_RC || (qp->type == QPT_UC && request->length > EAGER_BYTES);
}

void real_acked(struct qp *qp, uint32_t messages)
{
	while (qp->front != qp->next) {
		const struct request *request = real_request(qp, qp->front);
		if ((int32_t)(messages - request->number) <= 0)
			return;
		end_front(qp, STATUS_OK);
		qp->deadline = 0;
		qp->retries = (uint32_t)real_attr(qp, QP_RETRY_CNT);
		qp->not_ready_retries = (uint32_t)real_attr(qp, QP_RNR_RETRY);
	}
}

/* ---- messages into the ring ---- */

static struct outgoing *ring_to(uint32_t process)
{
	struct outgoing *to = &real_adapter.to[process];
	if (to->ring)
		return to;
	to->ring = &real_adapter.fabric->ring[real_adapter.number][process];
	/* One that had this place before may have left messages. */
	to->head = atomic_load(&to->ring->head);
	to->byte_head = atomic_load(&to->ring->byte_head);
	to->tail = atomic_load(&to->ring->tail);
	to->byte_tail = atomic_load(&to->ring->byte_tail);
	atomic_fetch_or(&real_adapter.fabric->process[process].senders[real_adapter.number / 64], 1ull << real_adapter.number % 64);
	return to;
}

/* Looks how much the receiver has taken. */
static void look(struct outgoing *to)
{
	to->tail = atomic_load_explicit(&to->ring->tail, memory_order_acquire);
	to->byte_tail = atomic_load_explicit(&to->ring->byte_tail, memory_order_relaxed);
}

/* Where there is room for `bytes` in one piece behind all others; false where the receiver has not taken enough. */
static bool find_room(struct outgoing *to, uint32_t bytes, uint32_t *place)
{
	*place = to->byte_head;
	bytes = (bytes + 63u) & ~63u;
	if (*place % RING_BYTES + bytes > RING_BYTES)
		*place += RING_BYTES - *place % RING_BYTES;
	for (int tries = 0; tries < 2; tries++) {
		if (to->head - to->tail < RING_SLOTS && *place + bytes - to->byte_tail <= RING_BYTES)
			return true;
		look(to);
	}
	return false;
}

static void gather(struct qp *qp, struct request *request, uint8_t *to)
{
	const struct sge *list = pieces_of(request);
	if (request->flags & SEND_INLINE) {
		memcpy(to, copied_to(qp, request), request->length);
		return;
	}
	for (uint32_t i = 0; i < request->count; i++) {
		memcpy(to, (const void *)(uintptr_t)list[i].addr, list[i].length);
		to += list[i].length;
	}
}

/* Where the receiver fetches the bytes. */
static uint16_t list_pieces(const struct request *request, uint64_t *to)
{
	uint16_t count = 0;
	for (uint32_t i = 0; i < request->count; i++)
		if (pieces_of(request)[i].length) {
			to[2 * count] = pieces_of(request)[i].addr;
			to[2 * count++ + 1] = pieces_of(request)[i].length;
		}
	return count;
}

/* Bytes in the ring beside the slot. */
static uint32_t beside(const struct request *request, uint32_t length)
{
	return length <= SLOT_BYTES ? 0 : length <= EAGER_BYTES ? length : 16 * request->count;
}

static bool put(struct qp *qp, struct request *request, uint32_t process, uint32_t to, uint8_t kind)
{
	struct outgoing *out = ring_to(process);
	struct real_ring *ring = out->ring;
	uint32_t length = kind == MESSAGE_WRITE_IMM ? 0 : request->length, more = beside(request, length), place;
	struct real_slot *slot = &ring->slot[out->head % RING_SLOTS];
	if (!find_room(out, more, &place))
		return false;
	slot->place = place;
	slot->end = place + ((more + 63u) & ~63u);
	bool has_imm = request->opcode == WR_SEND_WITH_IMM || request->opcode == WR_RDMA_WRITE_WITH_IMM;
	slot->kind = kind;
	slot->flags = (uint8_t)((has_imm ? MESSAGE_HAS_IMM : 0) | (request->flags & SEND_SOLICITED ? MESSAGE_SOLICITED : 0));
	slot->pieces = 0;
	slot->to = to;
	slot->from = qp->number;
	slot->number = request->number;
	slot->length = request->length;
	slot->imm = request->imm;
	slot->acked = qp->expected;
	slot->qkey = request->qkey;
	slot->lid = qp->shared->lid;
	slot->sl = request->sl;
	uint8_t *bytes = more ? ring->bytes + place % RING_BYTES : slot->bytes;
	if (length > EAGER_BYTES)
		slot->pieces = list_pieces(request, (uint64_t *)bytes);
	else if (length)
		gather(qp, request, bytes);
	qp->owes = false;
	out->byte_head = slot->end;
	out->head++;
	atomic_store_explicit(&ring->byte_head, out->byte_head, memory_order_relaxed);
	atomic_store_explicit(&ring->head, out->head, memory_order_relaxed);
	atomic_store_explicit(&slot->turn, out->head, memory_order_release);
	real_wake(process);
	return true;
}

/* ---- one request ---- */

enum sent { SENT, DONE, WAITS, FAILED };

static int local_error(const struct qp *qp, const struct request *request)
{
	bool atomic = request->opcode >= WR_ATOMIC_CMP_AND_SWP;
	uint32_t right = request->opcode >= WR_RDMA_READ ? ACCESS_LOCAL_WRITE : 0;
	if (request->length > (qp->type == QPT_UD ? LONGEST_DATAGRAM : LONGEST) || (atomic && request->length != ATOMIC_BYTES))
		return STATUS_LENGTH;
	if (right && !real_attr(qp, QP_MAX_QP_RD_ATOMIC))
		return STATUS_OPERATION;
	if (request->flags & SEND_INLINE)
		return 0;
	const struct sge *list = pieces_of(request);
	for (uint32_t i = 0; i < request->count; i++)
		if (!real_may(real_adapter.number, qp->pd, list[i].lkey, list[i].addr, list[i].length, right))
			return STATUS_PROTECTION;
	return 0;
}

/* Datagrams to nowhere are lost. */
bool real_datagram_to(struct qp *qp, struct request *request, uint32_t number)
{
	struct real_pair *peer = real_pair_of(number);
	uint32_t process = peer ? atomic_load(&peer->process) - 1 : UINT32_MAX;
	bool elsewhere = process >= MOST_PROCESSES || (peer->lid != request->lid && !(request->lid & GROUP_LID));
	return elsewhere || put(qp, request, process, number, MESSAGE_DATAGRAM) || !real_is_alive(process);
}

static enum sent send_datagram(struct qp *qp, struct request *request)
{
	if (request->lid & GROUP_LID)
		return real_send_to_group(qp, request), DONE;
	return real_datagram_to(qp, request, request->qpn) ? DONE : WAITS;
}

static enum sent send_message(struct qp *qp, struct request *request, struct real_pair *peer, uint8_t kind)
{
	uint32_t process = atomic_load(&peer->process) - 1;
	request->number = qp->sent;
	if (process >= MOST_PROCESSES || !put(qp, request, process, peer->number, kind))
		return WAITS;
	qp->sent++;
	return waits_for_peer(qp, request) ? SENT : DONE;
}

static enum sent send_one(struct qp *qp, struct request *request, int *status)
{
	bool first = qp->front == qp->next;
	*status = local_error(qp, request);
	/* Those before it end first. */
	if (*status)
		return first ? FAILED : WAITS;
	if (qp->type == QPT_UD)
		return send_datagram(qp, request);
	struct real_pair *peer = real_pair_of(qp->shared->peer);
	if (!real_is_ready(qp, peer))
		return qp->type == QPT_UC ? (first ? DONE : WAITS) : WAITS;
	if (request->opcode == WR_SEND || request->opcode == WR_SEND_WITH_IMM)
		return qp->type == QPT_UC && !first && request->length <= EAGER_BYTES ? WAITS : send_message(qp, request, peer, MESSAGE_SEND);
	/* What was sent before may still be refused, and then this must not have happened. */
	if (!first)
		return WAITS;
	*status = real_one_sided(qp, request);
	if (*status)
		return *status < 0 ? WAITS : FAILED;
	return request->opcode == WR_RDMA_WRITE_WITH_IMM ? send_message(qp, request, peer, MESSAGE_WRITE_IMM) : DONE;
}

static void tell_drained(struct qp *qp)
{
	if (atomic_load(&qp->shared->state) != QPS_SQD || qp->drained || qp->front != qp->next)
		return;
	qp->drained = true;
	real_async(qp->nic, EVENT_DRAINED, qp->number);
}

void real_send(struct qp *qp)
{
	while (qp->next != qp->posted && atomic_load_explicit(&qp->shared->state, memory_order_relaxed) == QPS_RTS && !qp->rest_until) {
		int status;
		enum sent how = send_one(qp, real_request(qp, qp->next), &status);
		if (how == WAITS)
			break;
		if (how == FAILED) {
			real_fail(qp, (uint32_t)status);
			return;
		}
		qp->next++;
		if (how == DONE)
			end_front(qp, STATUS_OK);
	}
	tell_drained(qp);
	if (qp->front != qp->posted)
		now_busy(qp);
	else
		real_not_busy(qp);
}

/* ---- what the peer says ---- */

/* Everything from the first request that has not ended is sent again. */
static void go_back(struct qp *qp)
{
	if (qp->front != qp->next)
		qp->sent = real_request(qp, qp->front)->number;
	qp->next = qp->front;
}

/* How long a receiver that is not ready asks to be left alone, in units of 10 us. Basis: standard, IBA vol. 1 table 45. */
static uint64_t rest_of(uint32_t code)
{
	static const uint16_t units[32] = { 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
					    4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152 };
	return (code ? units[code & 31] : 65536) * 10000ull;
}

static void refused(struct qp *qp, uint64_t nak)
{
	uint32_t kind = (uint32_t)nak & 0xff, what = (uint32_t)nak >> 8;
	real_acked(qp, (uint32_t)(nak >> 32));
	if (qp->front == qp->next)
		return;
	if (kind == NAK_STATUS) {
		real_fail(qp, what);
		return;
	}
	if (qp->not_ready_retries == 0) {
		real_fail(qp, STATUS_NOT_READY);
		return;
	}
	if (qp->not_ready_retries != FOR_EVER)
		qp->not_ready_retries--;
	go_back(qp);
	qp->rest_until = live_real_ns() + rest_of(what);
}

void real_hear(struct qp *qp)
{
	struct real_pair *own = qp->shared;
	if (qp->front != qp->next && qp->type != QPT_UD) {
		uint32_t acked = atomic_load_explicit(&own->acked, memory_order_acquire);
		real_acked(qp, acked);
		if (atomic_load_explicit(&own->nak, memory_order_relaxed))
			refused(qp, atomic_exchange(&own->nak, 0));
	}
	if (qp->busy && (qp->next != qp->posted || qp->front == qp->posted))
		real_send(qp);
}

static uint64_t timeout_of(const struct qp *qp)
{
	uint64_t code = real_attr(qp, QP_TIMEOUT), ns = 4096ull << code;
	return code == 0 ? UINT64_MAX : ns < LEAST_WAIT_NS ? LEAST_WAIT_NS : ns;
}

/* Nothing came for the time that the program gives its peer. */
static void run_out(struct qp *qp, uint64_t now)
{
	struct real_pair *peer = qp->type == QPT_UD ? NULL : real_pair_of(qp->shared->peer);
	bool ready = qp->type != QPT_UD && real_is_ready(qp, peer);
	uint32_t process = ready ? atomic_load(&peer->process) - 1 : 0;
	qp->deadline = now + timeout_of(qp);
	if (qp->type == QPT_UC && qp->front != qp->next && !(ready && real_is_alive(process))) {
		end_front(qp, STATUS_OK);
	} else if (qp->type == QPT_RC && !(ready && real_is_alive(process))) {
		if (qp->retries-- == 0) {
			real_fail(qp, STATUS_RETRIES);
			return;
		}
	} else if (qp->type == QPT_RC) {
		/* Nothing is lost between processes, but what came before the peer was ready was not kept. */
		go_back(qp);
	}
	real_send(qp);
}

uint64_t real_clock_of(struct qp *qp, uint64_t now)
{
	if (qp->rest_until) {
		if (now < qp->rest_until)
			return qp->rest_until;
		qp->rest_until = 0;
		go_back(qp);
		real_send(qp);
	}
	if (!qp->busy)
		return UINT64_MAX;
	uint64_t wait = qp->type == QPT_RC ? timeout_of(qp) : LEAST_WAIT_NS;
	if (wait == UINT64_MAX)
		return UINT64_MAX;
	if (!qp->deadline)
		qp->deadline = now + wait;
	if (now >= qp->deadline)
		run_out(qp, now);
	return qp->busy ? qp->deadline : UINT64_MAX;
}

/* ---- posting ---- */

static bool has(uint32_t type, uint32_t opcode)
{
	bool sends = opcode == WR_SEND || opcode == WR_SEND_WITH_IMM;
	return type == QPT_RC ? opcode <= WR_ATOMIC_FETCH_AND_ADD : type == QPT_UC ? sends || opcode <= WR_RDMA_WRITE_WITH_IMM : sends;
}

/* The error number of a request that the queue pair does not take; `post` is as `verbs_data.c` lays it down. */
static int check(const struct qp *qp, const uint64_t *post)
{
	uint32_t state = atomic_load_explicit(&qp->shared->state, memory_order_relaxed), opcode = (uint32_t)post[4];
	uint32_t count = (uint32_t)(post[5] >> 32), copied = (uint32_t)post[10];
	bool is_inline = post[4] >> 32 & SEND_INLINE, atomic = opcode >= WR_ATOMIC_CMP_AND_SWP;
	if (state == QPS_RESET || state == QPS_INIT || state == QPS_RTR || !has(qp->type, opcode))
		return EINVAL;
	if (qp->posted - qp->freed >= qp->max_send)
		return ENOMEM;
	if (count > qp->max_send_sge || (atomic && count > 1) || (is_inline && (copied > qp->max_inline || opcode > WR_SEND_WITH_IMM)))
		return EINVAL;
	if (qp->type != QPT_UD)
		return 0;
	const struct ah *ah = real_ah(qp->nic, (uint32_t)post[8]);
	return !ah || !(ah->lid & GROUP_LID) != (post[8] >> 32 != GROUP_QPN) ? EINVAL : 0;
}

static int take(struct qp *qp, const uint64_t *post)
{
	int error = check(qp, post);
	if (error)
		return error;
	struct request *to = real_request(qp, qp->posted);
	uint32_t count = (uint32_t)(post[5] >> 32), copied = (uint32_t)post[10];
	to->wr_id = post[3];
	to->opcode = (uint32_t)post[4];
	to->flags = (uint32_t)(post[4] >> 32);
	to->imm = (uint32_t)post[5];
	to->remote = post[6];
	to->rkey = (uint32_t)post[7];
	to->compare_add = post[8];
	to->swap = post[9];
	to->count = count;
	to->number = to->qkey = to->sl = 0;
	to->signaled = qp->sq_sig_all || to->flags & SEND_SIGNALED;
	if (qp->type == QPT_UD) {
		const struct ah *ah = real_ah(qp->nic, (uint32_t)post[8]);
		to->lid = ah->lid;
		to->sl = ah->sl;
		to->qpn = (uint32_t)(post[8] >> 32);
		if (to->lid & GROUP_LID) {
			to->remote = ah->gid[0];
			to->compare_add = ah->gid[1];
		}
		to->qkey = post[9] & OWN_QKEY ? (uint32_t)real_attr(qp, QP_QKEY) : (uint32_t)post[9];
	}
	uint64_t length = 0;
	struct sge *list = pieces_of(to);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t word = post[SEND_WORDS + 2 * i + 1];
		list[i] = (struct sge){ post[SEND_WORDS + 2 * i], (uint32_t)word, (uint32_t)(word >> 32) };
		length += list[i].length;
	}
	to->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	memcpy(copied_to(qp, to), post + SEND_WORDS + 2 * count, copied);
	qp->posted++;
	return 0;
}

static int post_send(const uint64_t *post)
{
	struct qp *qp = real_qp((uint32_t)(post[2] >> 32));
	int error = qp ? take(qp, post) : EINVAL;
	if (error)
		return error;
	uint32_t state = atomic_load_explicit(&qp->shared->state, memory_order_relaxed);
	if (state == QPS_ERR || state == QPS_SQE)
		real_flush_sends(qp);
	else if (qp->front == qp->posted - 1 || qp->next == qp->posted - 1)
		real_send(qp);
	else
		now_busy(qp);
	return 0;
}

static int post_receive(const uint64_t *post, uint32_t kind)
{
	uint32_t nic = (uint32_t)post[2], number = (uint32_t)(post[2] >> 32);
	if (kind == POST_SRQ_RECV) {
		struct srq *srq = real_srq(nic, number);
		return srq ? (int)real_post_receive(&srq->queue, post) : EINVAL;
	}
	struct qp *qp = real_qp(number);
	uint32_t state = qp ? atomic_load_explicit(&qp->shared->state, memory_order_relaxed) : QPS_RESET;
	if (!qp || qp->srq || state == QPS_RESET)
		return EINVAL;
	int error = (int)real_post_receive(&qp->queue, post);
	if (!error && state == QPS_ERR)
		real_flush_receives(qp);
	return error;
}

/* All that was collected; the error of the last chain, and how many of that were taken. */
int64_t real_post(uint8_t *posts, size_t bytes, int64_t *taken)
{
	int64_t result = 0;
	bool refused_before = false, goes_on = false;
	*taken = 0;
	for (size_t at = 0; at < bytes;) {
		const uint64_t *post = (const uint64_t *)(posts + at);
		uint32_t kind = post[0] & 0x7fff;
		at += (post[0] >> 16) * sizeof *post;
		if (!goes_on) {
			refused_before = false;
			*taken = 0;
		}
		goes_on = post[0] & MORE_POSTS;
		if (refused_before)
			continue;
		int error = kind == POST_SEND ? post_send(post) : post_receive(post, kind);
		refused_before = error != 0;
		if (error)
			result = -error;
		else
			++*taken;
	}
	return result;
}
