/* Control verbs: making, changing and destroying objects. Each is a question; the structures here only name what the fabric has. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"
#include "verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

void live_fill_device(struct live_context *context);

#define TABLE 4096
static struct live_qp *qps[TABLE];
static struct live_srq *srqs;
static struct live_cq *cqs[TABLE];

static size_t place(uint32_t nic, uint32_t number) { return (number * 31u + nic) % TABLE; }

struct live_qp *live_qp_by_number(uint32_t nic, uint32_t qpn)
{
	struct live_qp *qp = qps[place(nic, qpn)];
	while (qp && (qp->ex.qp_base.qp_num != qpn || nic_of(qp->ex.qp_base.context) != nic))
		qp = qp->next;
	return qp;
}

void live_remember_qp(struct live_qp *qp)
{
	struct live_qp **at = &qps[place(nic_of(qp->ex.qp_base.context), qp->ex.qp_base.qp_num)];
	qp->next = *at;
	*at = qp;
}

void live_forget_qp(struct live_qp *qp)
{
	struct live_qp **at = &qps[place(nic_of(qp->ex.qp_base.context), qp->ex.qp_base.qp_num)];
	while (*at && *at != qp)
		at = &(*at)->next;
	if (*at)
		*at = qp->next;
}

struct live_srq *live_srq_by_handle(uint32_t nic, uint32_t handle)
{
	struct live_srq *srq = srqs;
	while (srq && (srq->srq.handle != handle || nic_of(srq->srq.context) != nic))
		srq = srq->next;
	return srq;
}

/* ---- protection domains ---- */

struct abi_pd *ibv_alloc_pd(struct abi_context *context)
{
	int64_t id = live_answers() ? LIVE_ASK(OP_ALLOC_PD, nic_of(context)) : -EIO;
	struct abi_pd *pd = id < 0 ? NULL : calloc(1, sizeof *pd);
	if (!pd)
		return live_failed(id, pd);
	*pd = (struct abi_pd){ context, (uint32_t)id };
	return pd;
}

int ibv_dealloc_pd(struct abi_pd *pd)
{
	int error = live_answers() ? live_code(LIVE_ASK(OP_DEALLOC_PD, nic_of(pd->context), pd->handle)) : 0;
	if (!error)
		free(pd);
	return error;
}

struct abi_pd *ibv_import_pd(struct abi_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	return live_failed(-EOPNOTSUPP, NULL);
}
void ibv_unimport_pd(struct abi_pd *pd) { (void)pd; }
struct abi_mr *ibv_import_mr(struct abi_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	return live_failed(-EOPNOTSUPP, NULL);
}
void ibv_unimport_mr(struct abi_mr *mr) { (void)mr; }
void *ibv_import_dm(struct abi_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	return live_failed(-EOPNOTSUPP, NULL);
}
void ibv_unimport_dm(void *dm) { (void)dm; }

/* ---- completion queues and their events ---- */

struct abi_channel *ibv_create_comp_channel(struct abi_context *context)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	int64_t id = live_answers() ? LIVE_ASK(OP_CREATE_CHANNEL, nic_of(context), fd) : -EIO;
	struct live_channel *channel = id < 0 ? NULL : calloc(1, sizeof *channel);
	if (!channel) {
		live_syscall(SYS_close, fd);
		return live_failed(id, channel);
	}
	channel->id = (uint32_t)id;
	if (live_mine)
		live_set_kind(fd, FD_EVENTS);
	channel->channel = (struct abi_channel){ context, fd, 0 };
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct abi_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	if (live_answers())
		LIVE_ASK(OP_DESTROY_CHANNEL, ((struct live_channel *)channel)->id);
	close(channel->fd);
	free(channel);
	return 0;
}

static struct live_cq *create_cq(struct abi_context *context, uint32_t cqe, uint32_t vector, void *of_program, struct abi_channel *channel)
{
	if (cqe < 1 || cqe > MOST_CQE || vector >= (uint32_t)context->num_comp_vectors)
		return live_failed(-EINVAL, NULL);
	int64_t on = channel ? (int64_t)((struct live_channel *)channel)->id : -1;
	struct live_cq *cq = calloc(1, sizeof *cq);
	int64_t id = !cq ? -ENOMEM : live_answers() ? LIVE_ASK(OP_CREATE_CQ, nic_of(context), cqe, on, (int64_t)(uintptr_t)cq) : -EIO;
	if (id < 0)
		return live_failed(id, cq);
	struct abi_cq *public = &cq->ex.cq;
	*public = (struct abi_cq){ .context = context, .channel = channel, .cq_context = of_program, .handle = (uint32_t)id, .cqe = (int)cqe };
	pthread_mutex_init(&public->mutex, NULL);
	pthread_cond_init(&public->cond, NULL);
	if (channel)
		channel->refcnt++;
	cqs[place(nic_of(context), (uint32_t)id)] = cq;
	return cq;
}

struct live_cq *live_cq_by_handle(uint32_t nic, uint32_t handle)
{
	struct live_cq *cq = cqs[place(nic, handle)];
	return cq && cq->ex.cq.handle == handle ? cq : NULL;
}

struct abi_cq *ibv_create_cq(struct abi_context *context, int cqe, void *of_program, struct abi_channel *channel, int vector)
{
	struct live_cq *cq = create_cq(context, (uint32_t)cqe, (uint32_t)vector, of_program, channel);
	return cq ? &cq->ex.cq : NULL;
}

static struct abi_cq_ex *create_cq_ex(struct abi_context *context, struct abi_cq_init_ex *init)
{
	if (init->wc_flags & ~0x87full || init->comp_mask & ~1u) /* no VLANs, flow tags, tag matching */
		return live_failed(-EOPNOTSUPP, NULL);
	struct live_cq *cq = create_cq(context, init->cqe, init->comp_vector, init->cq_context, init->channel);
	if (cq)
		live_extend_cq(cq);
	return cq ? &cq->ex : NULL;
}

int ibv_resize_cq(struct abi_cq *cq, int cqe)
{
	(void)cq, (void)cqe;
	return EOPNOTSUPP;
}

int ibv_destroy_cq(struct abi_cq *cq)
{
	int error = live_answers() ? live_code(LIVE_ASK(OP_DESTROY_CQ, nic_of(cq->context), cq->handle)) : 0;
	if (error)
		return error;
	if (cq->channel)
		cq->channel->refcnt--;
	cqs[place(nic_of(cq->context), cq->handle)] = NULL;
	free(cq);
	return 0;
}

int live_req_notify_cq(struct abi_cq *cq, int solicited)
{
	return live_answers() ? live_code(LIVE_ASK(OP_NOTIFY_CQ, nic_of(cq->context), cq->handle, solicited)) : EIO;
}

int ibv_get_cq_event(struct abi_channel *channel, struct abi_cq **cq, void **of_program)
{
	if (!live_answers()) {
		errno = EIO;
		return -1;
	}
	int64_t which = LIVE_ASK(OP_CQ_EVENT, ((struct live_channel *)channel)->id, live_blocks(channel->fd));
	if (which < 0) {
		errno = (int)-which;
		return -1;
	}
	*cq = (struct abi_cq *)(uintptr_t)which;
	*of_program = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct abi_cq *cq, unsigned count) { cq->comp_events_completed += count; }

int ibv_get_async_event(struct abi_context *context, struct abi_async_event *event)
{
	if (!live_answers()) {
		errno = EIO;
		return -1;
	}
	int64_t type = LIVE_ASK(OP_ASYNC_EVENT, nic_of(context), live_blocks(context->async_fd));
	if (type < 0) {
		errno = (int)-type;
		return -1;
	}
	uint32_t number = (uint32_t)live_args()[0];
	event->event_type = (int)type;
	switch (type) {
	case 0:
		event->element.object = live_cq_by_handle(nic_of(context), number);
		break;
	case 15:
		event->element.object = live_srq_by_handle(nic_of(context), number);
		break;
	case 9:
	case 10:
		event->element.port_num = 1;
		break;
	default:
		event->element.object = live_qp_by_number(nic_of(context), number);
	}
	return 0;
}

void ibv_ack_async_event(struct abi_async_event *event) { (void)event; }

/* ---- shared receive queues ---- */

static struct live_srq *create_srq(struct abi_pd *pd, void *of_program, struct abi_srq_attr *attr, int64_t xrcd, struct abi_cq *cq)
{
	struct live_srq *srq = calloc(1, sizeof *srq);
	uint32_t nic = nic_of(pd->context);
	int64_t id = !srq ? -ENOMEM
		     : !live_answers() ? -EIO
		     : LIVE_ASK(OP_CREATE_SRQ, nic, pd->handle, attr->max_wr, attr->max_sge, xrcd, cq ? (int64_t)cq->handle : -1);
	if (id < 0)
		return live_failed(id, srq);
	srq->srq = (struct abi_srq){ .context = pd->context, .srq_context = of_program, .pd = pd, .handle = (uint32_t)id };
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	srq->cap = attr->max_wr;
	srq->max_sge = attr->max_sge;
	srq->xrc = cq != NULL;
	srq->next = srqs;
	srqs = srq;
	return srq;
}

struct abi_srq *ibv_create_srq(struct abi_pd *pd, struct abi_srq_init *init)
{
	struct live_srq *srq = create_srq(pd, init->srq_context, &init->attr, -1, NULL);
	return srq ? &srq->srq : NULL;
}

static struct abi_srq *create_srq_ex(struct abi_context *context, struct abi_srq_init_ex *init)
{
	(void)context;
	bool xrc = init->comp_mask & SRQ_INIT_TYPE && init->srq_type == SRQT_XRC;
	if (!(init->comp_mask & SRQ_INIT_PD) || (init->comp_mask & SRQ_INIT_TYPE && init->srq_type > SRQT_XRC) ||
	    (xrc && (!(init->comp_mask & SRQ_INIT_XRCD) || !(init->comp_mask & SRQ_INIT_CQ))))
		return live_failed(init->comp_mask & SRQ_INIT_TYPE && init->srq_type > SRQT_XRC ? -EOPNOTSUPP : -EINVAL, NULL);
	int64_t xrcd = xrc ? (int64_t)((struct live_xrcd *)init->xrcd)->id : -1;
	struct live_srq *srq = create_srq(init->pd, init->srq_context, &init->attr, xrcd, xrc ? init->cq : NULL);
	return srq ? &srq->srq : NULL;
}

static int get_srq_num(struct abi_srq *srq, uint32_t *number)
{
	*number = srq->handle;
	return ((struct live_srq *)srq)->xrc ? 0 : EOPNOTSUPP;
}

int ibv_modify_srq(struct abi_srq *srq, struct abi_srq_attr *attr, int mask)
{
	if (mask & SRQ_MAX_WR)
		return EOPNOTSUPP;
	return mask & SRQ_LIMIT ? live_code(LIVE_ASK(OP_MODIFY_SRQ, nic_of(srq->context), srq->handle, attr->srq_limit)) : 0;
}

int ibv_query_srq(struct abi_srq *srq, struct abi_srq_attr *attr)
{
	struct live_srq *own = (struct live_srq *)srq;
	*attr = (struct abi_srq_attr){ own->cap, own->max_sge, 0 };
	return 0;
}

int ibv_destroy_srq(struct abi_srq *srq)
{
	int error = live_answers() ? live_code(LIVE_ASK(OP_DESTROY_SRQ, nic_of(srq->context), srq->handle)) : 0;
	if (error)
		return error;
	struct live_srq **at = &srqs;
	while (*at && *at != (struct live_srq *)srq)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	free(srq);
	return 0;
}

/* ---- addresses ---- */

void live_address(const struct live_device_info *device, const struct abi_ah_attr *attr, uint64_t words[4])
{
	bool by_gid = attr->is_global && device->link_layer == LINK_ETHERNET;
	bool group = attr->is_global && attr->grh.dgid.raw[0] == 0xff;
	uint32_t lid;
	if (group)
		lid = 0x80000000u | (attr->dlid >= 0xc000 ? attr->dlid : 0xc000u | (attr->grh.dgid.raw[15] & 0xff) | (uint32_t)(attr->grh.dgid.raw[14] & 0x3f) << 8);
	else if (attr->dlid >= 0xc000 && !by_gid)
		lid = 0x80000000u | attr->dlid;
	else
		lid = by_gid ? live_lid_of_gid(&attr->grh.dgid) : (uint32_t)attr->dlid - 1;
	words[0] = lid;
	words[1] = attr->sl;
	words[2] = be64toh(attr->grh.dgid.words[0]);
	words[3] = be64toh(attr->grh.dgid.words[1]);
}

struct abi_ah *ibv_create_ah(struct abi_pd *pd, struct abi_ah_attr *attr)
{
	/* Ethernet knows no LIDs. */
	if (!attr->is_global && ((struct live_device *)pd->context->device)->info.link_layer == LINK_ETHERNET)
		return live_failed(-EINVAL, NULL);
	uint64_t to[4];
	live_address(&((struct live_device *)pd->context->device)->info, attr, to);
	int64_t id = live_answers() ? LIVE_ASK(OP_CREATE_AH, nic_of(pd->context), pd->handle, (int64_t)to[0], (int64_t)to[1],
					      (int64_t)to[2], (int64_t)to[3])
				 : -EIO;
	struct abi_ah *ah = id < 0 ? NULL : calloc(1, sizeof *ah);
	if (!ah)
		return live_failed(id, ah);
	*ah = (struct abi_ah){ pd->context, pd, (uint32_t)id };
	return ah;
}

int ibv_init_ah_from_wc(struct abi_context *context, uint8_t port, struct abi_wc *wc, struct abi_grh *grh, struct abi_ah_attr *attr)
{
	(void)context;
	*attr = (struct abi_ah_attr){ .dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port };
	if (wc->wc_flags & WC_GRH) {
		attr->is_global = 1;
		attr->grh.dgid = grh->sgid;
		attr->grh.hop_limit = 0xff;
		if (((struct live_device *)context->device)->info.link_layer == LINK_ETHERNET)
			attr->grh.sgid_index = 3;
	}
	return 0;
}

struct abi_ah *ibv_create_ah_from_wc(struct abi_pd *pd, struct abi_wc *wc, struct abi_grh *grh, uint8_t port)
{
	struct abi_ah_attr attr;
	ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
	return ibv_create_ah(pd, &attr);
}

int ibv_destroy_ah(struct abi_ah *ah)
{
	if (live_answers())
		LIVE_ASK(OP_DESTROY_AH, nic_of(ah->context), ah->handle);
	free(ah);
	return 0;
}

int ibv_resolve_eth_l2_from_gid(struct abi_context *context, struct abi_ah_attr *attr, uint8_t mac[6], uint16_t *vlan)
{
	(void)context;
	uint32_t lid = live_lid_of_gid(&attr->grh.dgid);
	const uint8_t made[6] = { 2, 0, 0, (uint8_t)(lid >> 16), (uint8_t)(lid >> 8), (uint8_t)lid };
	if (mac)
		memcpy(mac, made, sizeof made);
	if (vlan)
		*vlan = 0xffff;
	return 0;
}

/* ---- queue pairs ---- */

static struct abi_qp *create_qp(struct abi_pd *pd, struct abi_qp_init *init, int64_t xrcd, int64_t block_loopback)
{
	struct abi_context *context = pd ? pd->context : init->recv_cq ? init->recv_cq->context : init->send_cq->context;
	struct live_qp *qp = calloc(1, sizeof *qp);
	if (!qp)
		return live_failed(-ENOMEM, NULL);
	const struct live_device_info *info = &((struct live_device *)context->device)->info;
	if (init->cap.max_inline_data > info->max_inline)
		return live_failed(-EINVAL, qp);
	uint64_t *words = (uint64_t *)live_question();
	words[0] = nic_of(context);
	words[1] = pd ? pd->handle : UINT32_MAX;
	words[2] = (uint64_t)init->qp_type;
	words[3] = init->send_cq ? init->send_cq->handle : UINT32_MAX;
	words[4] = init->recv_cq ? init->recv_cq->handle : UINT32_MAX;
	words[5] = init->srq ? init->srq->handle : UINT32_MAX;
	words[6] = init->cap.max_send_wr;
	words[7] = init->cap.max_recv_wr;
	words[8] = init->cap.max_send_sge;
	words[9] = init->cap.max_recv_sge;
	words[10] = init->cap.max_inline_data;
	words[11] = init->sq_sig_all != 0;
	words[12] = (uint64_t)xrcd;
	words[13] = (uint64_t)block_loopback;
	int64_t number = live_ask(OP_CREATE_QP, 14 * sizeof *words);
	if (number < 0)
		return live_failed(number, qp);
	struct abi_qp *public = &qp->ex.qp_base;
	*public = (struct abi_qp){
		.context = context,
		.qp_context = init->qp_context,
		.pd = pd,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.handle = (uint32_t)number,
		.qp_num = (uint32_t)number,
		.state = QPS_RESET,
		.qp_type = init->qp_type,
	};
	pthread_mutex_init(&public->mutex, NULL);
	pthread_cond_init(&public->cond, NULL);
	qp->cap = init->cap;
	qp->sq_sig_all = init->sq_sig_all != 0;
	live_remember_qp(qp);
	return public;
}

struct abi_qp *ibv_create_qp(struct abi_pd *pd, struct abi_qp_init *init)
{
	return live_answers() ? create_qp(pd, init, -1, 0) : live_failed(-EIO, NULL);
}

static struct abi_qp *create_qp_ex(struct abi_context *context, struct abi_qp_init_ex *init)
{
	(void)context;
	if (init->comp_mask & ~(uint32_t)(QP_INIT_PD | QP_INIT_XRCD | QP_INIT_CREATE_FLAGS | QP_INIT_SEND_OPS))
		return live_failed(-EOPNOTSUPP, NULL);
	uint32_t flags = init->comp_mask & QP_INIT_CREATE_FLAGS ? init->create_flags : 0;
	/* Memory windows, invalidation, segmentation and atomic writes are not there. */
	uint64_t ops = init->comp_mask & QP_INIT_SEND_OPS ? init->send_ops_flags : 0;
	if (flags & ~(uint32_t)QP_CREATE_BLOCK_SELF_MCAST || ops & ~0x7full)
		return live_failed(-EOPNOTSUPP, NULL);
	struct abi_qp_init plain = {
		init->qp_context, init->send_cq, init->recv_cq, init->srq, init->cap, init->qp_type, init->sq_sig_all,
	};
	int64_t xrcd = init->comp_mask & QP_INIT_XRCD ? (int64_t)((struct live_xrcd *)init->xrcd)->id : -1;
	struct abi_pd *pd = init->comp_mask & QP_INIT_PD ? init->pd : NULL;
	if (!pd && xrcd < 0)
		return live_failed(-EINVAL, NULL);
	if (!pd) {
		/* The receiving end of XRC has no domain of its own and no queues: they are those of its shared receive queues. */
		struct abi_context *of = init->xrcd->context;
		int64_t made = LIVE_ASK(OP_ALLOC_PD, nic_of(of));
		struct abi_pd *own = calloc(1, sizeof *own);
		struct live_cq *cq = made < 0 || !own ? NULL : create_cq(of, 1, 0, NULL, NULL);
		if (!cq)
			return live_failed(-ENOMEM, own);
		*own = (struct abi_pd){ of, (uint32_t)made };
		plain.send_cq = plain.recv_cq = &cq->ex.cq;
		plain.cap = (struct abi_qp_cap){ 1, 0, 1, 0, 0 };
		pd = own;
	}
	struct abi_qp *qp = create_qp(pd, &plain, xrcd, (flags & QP_CREATE_BLOCK_SELF_MCAST) != 0);
	if (qp && init->comp_mask & QP_INIT_SEND_OPS)
		live_extend_qp((struct live_qp *)qp);
	return qp;
}

struct abi_qp_ex *ibv_qp_to_qp_ex(struct abi_qp *qp)
{
	struct live_qp *own = (struct live_qp *)qp;
	return own->built ? &own->ex : NULL;
}

int ibv_modify_qp(struct abi_qp *qp, struct abi_qp_attr *attr, int mask)
{
	if (!live_answers())
		return EIO;
	struct live_qp *own = (struct live_qp *)qp;
	if (mask & QP_CAP)
		return EOPNOTSUPP;
	const struct live_device_info *info = &((struct live_device *)qp->context->device)->info;
	uint64_t *words = (uint64_t *)live_question();
	words[0] = nic_of(qp->context);
	words[1] = qp->qp_num;
	words[2] = (uint64_t)(unsigned)mask;
	words[3] = (uint64_t)attr->qp_state;
	words[4] = (uint64_t)attr->path_mtu;
	words[5] = (uint64_t)attr->path_mig_state;
	words[6] = attr->qkey;
	words[7] = attr->rq_psn;
	words[8] = attr->sq_psn;
	words[9] = attr->dest_qp_num;
	words[10] = attr->qp_access_flags;
	words[11] = attr->pkey_index;
	words[12] = attr->max_rd_atomic;
	words[13] = attr->max_dest_rd_atomic;
	words[14] = attr->min_rnr_timer;
	words[15] = attr->port_num;
	words[16] = attr->timeout;
	words[17] = attr->retry_cnt;
	words[18] = attr->rnr_retry;
	words[19] = attr->rate_limit;
	live_address(info, &attr->ah_attr, words + 20);
	live_address(info, &attr->alt_ah_attr, words + 24);
	int64_t result = live_ask(OP_MODIFY_QP, 28 * sizeof *words);
	if (result < 0)
		return (int)-result;
	if (mask & QP_STATE) {
		qp->state = attr->qp_state;
		if (attr->qp_state == QPS_RESET)
			own->posted = own->freed = own->receives = 0;
	}
	return 0;
}

int ibv_query_qp(struct abi_qp *qp, struct abi_qp_attr *attr, int mask, struct abi_qp_init *init)
{
	(void)mask;
	if (!live_answers())
		return EIO;
	int64_t result = LIVE_ASK(OP_QUERY_QP, nic_of(qp->context), qp->qp_num);
	if (result < 0)
		return (int)-result;
	const uint64_t *words = (const uint64_t *)live_question();
	struct live_qp *own = (struct live_qp *)qp;
	bool ethernet = ((struct live_device *)qp->context->device)->info.link_layer == LINK_ETHERNET;
	*attr = (struct abi_qp_attr){
		.qp_state = (int)words[0],
		.cur_qp_state = (int)words[0],
		.path_mtu = (int)words[1],
		.path_mig_state = (int)words[2],
		.qkey = (uint32_t)words[3],
		.rq_psn = (uint32_t)words[4],
		.sq_psn = (uint32_t)words[5],
		.dest_qp_num = (uint32_t)words[6],
		.qp_access_flags = (unsigned)words[7],
		.cap = own->cap,
		.pkey_index = (uint16_t)words[8],
		.max_rd_atomic = (uint8_t)words[9],
		.max_dest_rd_atomic = (uint8_t)words[10],
		.min_rnr_timer = (uint8_t)words[11],
		.port_num = (uint8_t)words[12],
		.timeout = (uint8_t)words[13],
		.retry_cnt = (uint8_t)words[14],
		.rnr_retry = (uint8_t)words[15],
		.ah_attr = { .dlid = ethernet ? 0 : (uint16_t)(words[16] + 1), .sl = (uint8_t)words[17], .port_num = 1, .is_global = ethernet },
	};
	if (ethernet) {
		attr->ah_attr.grh.dgid = live_interface_gid((uint32_t)words[16]);
		attr->ah_attr.grh.sgid_index = 3;
		attr->ah_attr.grh.hop_limit = 64;
	}
	qp->state = (int)words[0];
	if (init)
		*init = (struct abi_qp_init){
			qp->qp_context, qp->send_cq, qp->recv_cq, qp->srq, own->cap, qp->qp_type, own->sq_sig_all,
		};
	return 0;
}

int ibv_destroy_qp(struct abi_qp *qp)
{
	live_forget_qp((struct live_qp *)qp);
	/* A process may have opened a queue pair several times. */
	bool last = !live_qp_by_number(nic_of(qp->context), qp->qp_num);
	int error = live_answers() && last ? live_code(LIVE_ASK(OP_DESTROY_QP, nic_of(qp->context), qp->qp_num)) : 0;
	if (error) {
		live_remember_qp((struct live_qp *)qp);
		return error;
	}
	free(((struct live_qp *)qp)->built);
	free(qp);
	return 0;
}

static int group(enum live_op op, struct abi_qp *qp, const union abi_gid *gid, uint16_t lid)
{
	struct abi_ah_attr attr = { .dlid = lid, .is_global = 1, .grh.dgid = *gid };
	uint64_t to[4];
	live_address(&((struct live_device *)qp->context->device)->info, &attr, to);
	return live_answers() ? live_code(LIVE_ASK(op, nic_of(qp->context), qp->qp_num, (int64_t)to[0], (int64_t)to[2], (int64_t)to[3])) : EIO;
}
int ibv_attach_mcast(struct abi_qp *qp, const union abi_gid *gid, uint16_t lid) { return group(OP_ATTACH, qp, gid, lid); }
int ibv_detach_mcast(struct abi_qp *qp, const union abi_gid *gid, uint16_t lid) { return group(OP_DETACH, qp, gid, lid); }

struct abi_ece {
	uint32_t vendor_id, options, comp_mask;
};
int ibv_query_ece(struct abi_qp *qp, struct abi_ece *ece)
{
	(void)qp;
	*ece = (struct abi_ece){ 0 };
	return EOPNOTSUPP;
}
int ibv_set_ece(struct abi_qp *qp, struct abi_ece *ece)
{
	(void)qp;
	return ece->vendor_id ? EOPNOTSUPP : 0;
}
int ibv_query_qp_data_in_order(struct abi_qp *qp, int op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

static struct abi_td *alloc_td(struct abi_context *context, void *init)
{
	(void)init;
	struct abi_td *td = calloc(1, sizeof *td);
	if (td)
		td->context = context;
	return td;
}
static int dealloc_td(struct abi_td *td)
{
	free(td);
	return 0;
}

void live_fill_context(struct live_context *context)
{
	live_fill_device(context);
	context->verbs.alloc_null_mr = live_alloc_null_mr;
	context->verbs.create_cq_ex = create_cq_ex;
	context->verbs.create_qp_ex = create_qp_ex;
	context->verbs.create_srq_ex = create_srq_ex;
	context->verbs.get_srq_num = get_srq_num;
	context->verbs.open_xrcd = live_open_xrcd;
	context->verbs.close_xrcd = live_close_xrcd;
	context->verbs.open_qp = live_open_qp;
	context->verbs.alloc_td = alloc_td;
	context->verbs.dealloc_td = dealloc_td;
	context->verbs.context.ops.poll_cq = live_poll_cq;
	context->verbs.context.ops.req_notify_cq = live_req_notify_cq;
	context->verbs.context.ops.post_send = live_post_send;
	context->verbs.context.ops.post_recv = live_post_recv;
	context->verbs.context.ops.post_srq_recv = live_post_srq_recv;
}
