/* The calls that build a request step by step (ibv_wr_*), and those that read a completion field by field (ibv_start_poll). */
#define _GNU_SOURCE
#include "channel.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct live_built *built(struct abi_qp_ex *qp) { return ((struct live_qp *)qp)->built; }

static void start(struct abi_qp_ex *qp)
{
	struct live_built *b = built(qp);
	b->wrs = b->sges = b->error = 0;
	b->inline_used = 0;
}

static struct abi_send_wr *next(struct abi_qp_ex *qp, int opcode)
{
	struct live_built *b = built(qp);
	if (b->wrs == (int)(sizeof b->wr / sizeof *b->wr)) {
		b->error = ENOMEM;
		b->wrs--;
	}
	struct abi_send_wr *wr = &b->wr[b->wrs];
	*wr = (struct abi_send_wr){ .wr_id = qp->wr_id, .opcode = opcode, .send_flags = qp->wr_flags, .sg_list = &b->sge[b->sges] };
	if (b->wrs)
		wr[-1].next = wr;
	b->wrs++;
	return wr;
}

static struct abi_send_wr *last(struct abi_qp_ex *qp) { return &built(qp)->wr[built(qp)->wrs - 1]; }

static void atomic(struct abi_qp_ex *qp, int opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct abi_send_wr *wr = next(qp, opcode);
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}
static void cmp_swp(struct abi_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(qp, WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}
static void fetch_add(struct abi_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic(qp, WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}
static void remote(struct abi_qp_ex *qp, int opcode, uint32_t rkey, uint64_t addr, uint32_t imm)
{
	struct abi_send_wr *wr = next(qp, opcode);
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
	wr->imm_data = imm;
}
static void rdma_read(struct abi_qp_ex *qp, uint32_t rkey, uint64_t addr) { remote(qp, WR_RDMA_READ, rkey, addr, 0); }
static void rdma_write(struct abi_qp_ex *qp, uint32_t rkey, uint64_t addr) { remote(qp, WR_RDMA_WRITE, rkey, addr, 0); }
static void rdma_write_imm(struct abi_qp_ex *qp, uint32_t rkey, uint64_t addr, uint32_t imm)
{
	remote(qp, WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}
static void plain_send(struct abi_qp_ex *qp) { next(qp, WR_SEND); }
static void send_imm(struct abi_qp_ex *qp, uint32_t imm) { next(qp, WR_SEND_WITH_IMM)->imm_data = imm; }

static void set_ud_addr(struct abi_qp_ex *qp, struct abi_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct abi_send_wr *wr = last(qp);
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}
static void set_xrc_srqn(struct abi_qp_ex *qp, uint32_t srqn) { last(qp)->qp_type.xrc.remote_srqn = srqn; }

static void add_piece(struct abi_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct live_built *b = built(qp);
	if (b->sges == (int)(sizeof b->sge / sizeof *b->sge)) {
		b->error = ENOMEM;
		return;
	}
	b->sge[b->sges++] = (struct abi_sge){ addr, length, lkey };
	last(qp)->num_sge++;
}
static void set_sge(struct abi_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length) { add_piece(qp, lkey, addr, length); }
static void set_sge_list(struct abi_qp_ex *qp, size_t count, const struct abi_sge *list)
{
	for (size_t i = 0; i < count; i++)
		add_piece(qp, list[i].lkey, list[i].addr, list[i].length);
}
/* The bytes are taken now, and once more when the request is complete: programs may change them in between. */
static void set_inline_data(struct abi_qp_ex *qp, void *addr, size_t length)
{
	struct live_built *b = built(qp);
	if (b->inline_used + length > sizeof b->inline_data) {
		b->error = ENOMEM;
		return;
	}
	uint8_t *copy = b->inline_data + b->inline_used;
	memcpy(copy, addr, length);
	b->inline_used += length;
	last(qp)->send_flags |= SEND_INLINE;
	add_piece(qp, 0, (uintptr_t)copy, (uint32_t)length);
}
static void set_inline_data_list(struct abi_qp_ex *qp, size_t count, const struct abi_data_buf *list)
{
	for (size_t i = 0; i < count; i++)
		set_inline_data(qp, list[i].addr, list[i].length);
}

static int complete(struct abi_qp_ex *qp)
{
	struct live_built *b = built(qp);
	struct abi_send_wr *bad;
	if (b->error)
		return b->error;
	return b->wrs ? live_post_send(&qp->qp_base, b->wr, &bad) : 0;
}
static void abort_built(struct abi_qp_ex *qp) { start(qp); }

void live_extend_qp(struct live_qp *qp)
{
	qp->built = calloc(1, sizeof *qp->built);
	qp->ex.wr_start = start;
	qp->ex.wr_complete = complete;
	qp->ex.wr_abort = abort_built;
	qp->ex.wr_atomic_cmp_swp = cmp_swp;
	qp->ex.wr_atomic_fetch_add = fetch_add;
	qp->ex.wr_rdma_read = rdma_read;
	qp->ex.wr_rdma_write = rdma_write;
	qp->ex.wr_rdma_write_imm = rdma_write_imm;
	qp->ex.wr_send = plain_send;
	qp->ex.wr_send_imm = send_imm;
	qp->ex.wr_set_ud_addr = set_ud_addr;
	qp->ex.wr_set_xrc_srqn = set_xrc_srqn;
	qp->ex.wr_set_inline_data = set_inline_data;
	qp->ex.wr_set_inline_data_list = set_inline_data_list;
	qp->ex.wr_set_sge = set_sge;
	qp->ex.wr_set_sge_list = set_sge_list;
}

/* ---- completions, field by field ---- */

static struct live_cq *own(struct abi_cq_ex *cq) { return (struct live_cq *)cq; }
static struct abi_wc *current(struct abi_cq_ex *cq) { return &own(cq)->batch[own(cq)->at]; }

static void show(struct abi_cq_ex *cq)
{
	cq->status = current(cq)->status;
	cq->wr_id = current(cq)->wr_id;
}
static int start_poll(struct abi_cq_ex *cq, struct abi_poll_attr *attr)
{
	if (attr->comp_mask)
		return EINVAL;
	if (own(cq)->at >= own(cq)->filled) {
		int found = live_poll_cq(&cq->cq, POLL_BATCH, own(cq)->batch);
		own(cq)->at = 0;
		own(cq)->filled = found > 0 ? found : 0;
		if (found <= 0)
			return found ? EIO : ENOENT;
	}
	show(cq);
	return 0;
}
static int next_poll(struct abi_cq_ex *cq)
{
	if (++own(cq)->at >= own(cq)->filled)
		return ENOENT;
	show(cq);
	return 0;
}
/* What was not read stays for the next poll. */
static void end_poll(struct abi_cq_ex *cq)
{
	if (own(cq)->at < own(cq)->filled)
		own(cq)->at++;
}
static int read_opcode(struct abi_cq_ex *cq) { return current(cq)->opcode; }
static uint32_t read_vendor_err(struct abi_cq_ex *cq) { return current(cq)->vendor_err; }
static uint32_t read_byte_len(struct abi_cq_ex *cq) { return current(cq)->byte_len; }
static uint32_t read_imm_data(struct abi_cq_ex *cq) { return current(cq)->imm_data; }
static uint32_t read_qp_num(struct abi_cq_ex *cq) { return current(cq)->qp_num; }
static uint32_t read_src_qp(struct abi_cq_ex *cq) { return current(cq)->src_qp; }
static unsigned read_wc_flags(struct abi_cq_ex *cq) { return current(cq)->wc_flags; }
static uint32_t read_slid(struct abi_cq_ex *cq) { return current(cq)->slid; }
static uint8_t read_sl(struct abi_cq_ex *cq) { return current(cq)->sl; }
static uint8_t read_path_bits(struct abi_cq_ex *cq) { return current(cq)->dlid_path_bits; }
static uint64_t read_ts(struct abi_cq_ex *cq)
{
	(void)cq;
	return live_device_ns();
}
static uint64_t read_wallclock(struct abi_cq_ex *cq)
{
	(void)cq;
	struct timespec now;
	if (live_real && clock_gettime(CLOCK_REALTIME, &now) == 0)
		return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return live_arena->epoch_ns + live_now() / 1000;
}

void live_extend_cq(struct live_cq *cq)
{
	struct abi_cq_ex *ex = &cq->ex;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_path_bits;
	ex->read_completion_ts = read_ts;
	ex->read_completion_wallclock_ns = read_wallclock;
}
