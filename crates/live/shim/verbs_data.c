/* Posting and polling.
 *
 * In real time every post is told at once. In virtual time a post that cannot fail is collected and told with the next question. It cannot
 * fail where the queue has room for certain and the request fits its queue pair; all others are told at once, and what the fabric says of
 * them is what the program gets. */
#define _GNU_SOURCE
#include "channel.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

static bool has(int qp_type, int opcode)
{
	switch (qp_type) {
	case QPT_RC:
	case QPT_XRC_SEND:
		return opcode >= WR_RDMA_WRITE && opcode <= WR_ATOMIC_FETCH_AND_ADD;
	case QPT_UC:
		return opcode >= WR_RDMA_WRITE && opcode <= WR_SEND_WITH_IMM;
	default:
		return opcode == WR_SEND || opcode == WR_SEND_WITH_IMM;
	}
}

static size_t inline_bytes(const struct abi_send_wr *wr)
{
	size_t bytes = 0;
	for (int i = 0; wr->send_flags & SEND_INLINE && i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static bool is_certain(const struct live_qp *qp, const struct abi_send_wr *wr)
{
	const struct abi_qp *public = &qp->ex.qp_base;
	bool atomic = wr->opcode == WR_ATOMIC_CMP_AND_SWP || wr->opcode == WR_ATOMIC_FETCH_AND_ADD;
	return public->state == QPS_RTS && qp->posted - qp->freed < qp->cap.max_send_wr && has(public->qp_type, wr->opcode) &&
	       wr->num_sge <= (atomic && qp->cap.max_send_sge > 1 ? 1 : (int)qp->cap.max_send_sge) &&
	       (!(wr->send_flags & SEND_INLINE) || (inline_bytes(wr) <= qp->cap.max_inline_data && wr->opcode <= WR_SEND_WITH_IMM));
}

static void put_pieces(uint64_t *to, uint32_t nic, const struct abi_sge *list, int count)
{
	for (int i = 0; i < count; i++) {
		to[2 * i] = live_any_moved ? live_place_in(nic, list[i].lkey, list[i].addr) : list[i].addr;
		to[2 * i + 1] = list[i].length | (uint64_t)list[i].lkey << 32;
	}
}

/* The head of a post: its kind, its size, and the work before it. */
static void put_head(uint64_t *to, enum live_post kind, size_t words, bool more)
{
	to[0] = kind | (more ? MORE_POSTS : 0) | words << 16;
	to[1] = live_spent;
	live_shadow += live_spent;
	live_spent = 0;
}

static void put_send(struct live_qp *qp, const struct abi_send_wr *wr)
{
	const struct abi_qp *public = &qp->ex.qp_base;
	size_t copied = inline_bytes(wr), words = SEND_WORDS + 2 * (size_t)wr->num_sge + (copied + 7) / 8;
	uint64_t *to = live_post(words * sizeof *to);
	put_head(to, POST_SEND, words, wr->next != NULL);
	to[2] = nic_of(public->context) | (uint64_t)public->qp_num << 32;
	to[3] = wr->wr_id;
	to[4] = (uint32_t)wr->opcode | (uint64_t)wr->send_flags << 32;
	to[5] = wr->imm_data | (uint64_t)(uint32_t)wr->num_sge << 32;
	to[6] = wr->wr.atomic.remote_addr;
	bool atomic = wr->opcode == WR_ATOMIC_CMP_AND_SWP || wr->opcode == WR_ATOMIC_FETCH_AND_ADD;
	to[7] = (atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey) | (uint64_t)wr->qp_type.xrc.remote_srqn << 32;
	to[8] = wr->wr.atomic.compare_add;
	to[9] = wr->wr.atomic.swap;
	if (public->qp_type == QPT_UD) {
		to[8] = (wr->wr.ud.ah ? wr->wr.ud.ah->handle : UINT32_MAX) | (uint64_t)wr->wr.ud.remote_qpn << 32;
		to[9] = wr->wr.ud.remote_qkey;
	}
	to[10] = copied | (uint64_t)public->qp_type << 32;
	put_pieces(to + SEND_WORDS, nic_of(public->context), wr->sg_list, wr->num_sge);
	uint8_t *data = (uint8_t *)(to + SEND_WORDS + 2 * wr->num_sge);
	for (int i = 0; copied && i < wr->num_sge; i++) {
		memcpy(data, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		data += wr->sg_list[i].length;
	}
	live_shadow += live_arena->post_send;
	qp->posted++;
}

/* Tells what was collected now; the error of the posts, if one was refused, and how many before it were taken of the last chain. */
static int tell(int *taken)
{
	int64_t result = live_ask(OP_POST, 0);
	*taken = (int)live_args()[0];
	return result < 0 ? (int)-result : 0;
}

int live_post_send(struct abi_qp *qp, struct abi_send_wr *wr, struct abi_send_wr **bad)
{
	struct live_qp *own = (struct live_qp *)qp;
	struct abi_send_wr *first = wr;
	uint64_t before = own->posted;
	bool certain = true;
	if (!live_answers()) {
		*bad = wr;
		return EIO;
	}
	for (const struct abi_send_wr *one = wr; one; one = one->next) {
		/* More pieces than any queue has would not fit the question either. */
		if (one->num_sge < 0 || one->num_sge > 256 || inline_bytes(one) > LIVE_POSTS / 4)
			return *bad = wr, EINVAL;
	}
	for (; wr; wr = wr->next) {
		certain &= is_certain(own, wr);
		put_send(own, wr);
	}
	if (certain && live_mine)
		return 0;
	int taken, error = tell(&taken);
	if (!error)
		return 0;
	own->posted = before + (uint64_t)taken;
	for (; taken > 0 && first->next; taken--)
		first = first->next;
	*bad = first;
	return error;
}

static int post_receives(enum live_post kind, uint32_t nic, uint32_t number, uint32_t *posted, uint32_t cap, uint32_t max_sge, bool ready,
			 struct abi_recv_wr *wr, struct abi_recv_wr **bad)
{
	if (!live_answers())
		return *bad = wr, EIO;
	for (; wr; wr = wr->next) {
		if (wr->num_sge < 0 || wr->num_sge > 256)
			return *bad = wr, EINVAL;
		bool certain = ready && *posted < cap && wr->num_sge <= (int)max_sge;
		size_t words = RECV_WORDS + 2 * (size_t)wr->num_sge;
		uint64_t *to = live_post(words * sizeof *to);
		put_head(to, kind, words, false);
		to[2] = nic | (uint64_t)number << 32;
		to[3] = wr->wr_id;
		to[4] = (uint32_t)wr->num_sge;
		put_pieces(to + RECV_WORDS, nic, wr->sg_list, wr->num_sge);
		live_shadow += live_arena->post_recv;
		++*posted;
		if (certain && live_mine)
			continue;
		int taken, error = tell(&taken);
		if (error) {
			--*posted;
			return *bad = wr, error;
		}
	}
	return 0;
}

int live_post_recv(struct abi_qp *qp, struct abi_recv_wr *wr, struct abi_recv_wr **bad)
{
	struct live_qp *own = (struct live_qp *)qp;
	bool ready = !qp->srq && qp->state != QPS_RESET;
	return post_receives(POST_RECV, nic_of(qp->context), qp->qp_num, &own->receives, own->cap.max_recv_wr, own->cap.max_recv_sge, ready, wr,
			     bad);
}

int live_post_srq_recv(struct abi_srq *srq, struct abi_recv_wr *wr, struct abi_recv_wr **bad)
{
	struct live_srq *own = (struct live_srq *)srq;
	return post_receives(POST_SRQ_RECV, nic_of(srq->context), srq->handle, &own->posted, own->cap, own->max_sge, true, wr, bad);
}

static uint64_t name_of(const struct abi_cq *cq) { return nic_of(cq->context) | (uint64_t)cq->handle << 32; }

/* Whether a queue was found empty, and nothing else was done since then. */
static bool was_empty(const struct abi_cq *cq)
{
	for (unsigned i = 0; i < live_empty.count; i++)
		if (live_empty.queue[i] == name_of(cq))
			return true;
	return false;
}

/* It is empty; false where that cannot be remembered. */
static bool find_empty(const struct abi_cq *cq)
{
	if (was_empty(cq))
		return true;
	if (live_empty.count == sizeof live_empty.queue / sizeof *live_empty.queue)
		return false;
	live_empty.queue[live_empty.count++] = name_of(cq);
	return true;
}

int live_poll_cq(struct abi_cq *cq, int most, struct abi_wc *into)
{
	if (!live_answers())
		return -1;
	if (most <= 0)
		return 0;
	uint32_t nic = nic_of(cq->context);
	bool again = live_mine && was_empty(cq);
	/* The first time that a queue is empty nothing has to be asked: the program may only see that it has taken all. */
	if (!again && live_mine && !live_mine->ready && find_empty(cq)) {
		live_spend(live_arena->poll_empty);
		return 0;
	}
	most = most > 256 ? 256 : most;
	int64_t found = live_mine ? LIVE_ASK(OP_POLL_CQ, nic, cq->handle, most, again) : live_real_poll(nic, cq->handle, most);
	if (found < 0)
		return (int)found;
	if (found)
		live_empty.count = 0;
	else if (live_mine)
		find_empty(cq);
	if (!found)
		return 0;
	const uint64_t *words = (const uint64_t *)live_question();
	for (int64_t i = 0; i < found; i++, words += WC_WORDS) {
		into[i] = (struct abi_wc){
			.wr_id = words[0],
			.status = (int)(uint32_t)words[1],
			.opcode = (int)(words[1] >> 32),
			.vendor_err = (uint32_t)words[2],
			.byte_len = (uint32_t)(words[2] >> 32),
			.imm_data = (uint32_t)words[3],
			.qp_num = (uint32_t)(words[3] >> 32),
			.src_qp = (uint32_t)words[4],
			.wc_flags = (unsigned)(words[4] >> 32),
			.slid = (uint16_t)words[5],
			.sl = (uint8_t)(words[5] >> 16),
		};
		struct live_qp *qp = live_qp_by_number(nic, into[i].qp_num);
		if (words[7]) {
			struct live_srq *srq = live_srq_by_handle(nic, (uint32_t)(words[7] - 1));
			if (srq && srq->posted)
				srq->posted--;
		} else if (qp && into[i].opcode & WC_RECV) {
			if (qp->receives)
				qp->receives--;
		} else if (qp && words[6] > qp->freed) {
			qp->freed = words[6];
		}
		if (qp && into[i].status)
			qp->ex.qp_base.state = QPS_ERR;
	}
	return (int)found;
}
