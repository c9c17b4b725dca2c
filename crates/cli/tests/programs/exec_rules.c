/* What two queue pairs of one process are told when something is wrong, and when they ask for events: a line for each. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *closed;
static struct ibv_port_attr port;
static char buffer[2][1 << 16];
static unsigned char reads = 1;

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = { 4, 4, 2, 2, 32 }, .qp_type = type };
	return ibv_create_qp(pd, &init);
}

static int connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	int rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .min_rnr_timer = 1, .max_dest_rd_atomic = 1,
				     .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	failed |= ibv_modify_qp(qp, &attr, rc ? mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : mask);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = reads };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	return failed | ibv_modify_qp(qp, &attr, rc ? mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : mask);
}

static void pair(struct ibv_qp *ends[2], enum ibv_qp_type type)
{
	ends[0] = create(type, NULL);
	ends[1] = create(type, NULL);
	if (connect_to(ends[0], ends[1]) || connect_to(ends[1], ends[0]))
		exit(1);
}
static void end(struct ibv_qp *ends[2])
{
	ibv_destroy_qp(ends[0]);
	ibv_destroy_qp(ends[1]);
}

static int receive(struct ibv_qp *qp, int id, unsigned length, const struct ibv_mr *of)
{
	struct ibv_sge piece = { (uintptr_t)buffer[1], length, of->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &piece, .num_sge = 1 }, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}
static int send(struct ibv_qp *qp, int id, unsigned length, enum ibv_wr_opcode opcode, int flags)
{
	struct ibv_sge piece = { (uintptr_t)buffer[0], length, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &piece, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags,
				  .imm_data = 7, .wr.rdma = { (uintptr_t)buffer[1], mr->rkey } }, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

/* What completes, in the order of the requests: of two queues of one process the order is that of time. */
static void show(const char *what, int count)
{
	char lines[8][160];
	printf("%s:", what);
	for (int i = 0; i < count; i++) {
		struct ibv_wc wc;
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		snprintf(lines[i], sizeof lines[i], " %d %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
		if (!wc.status && wc.opcode & IBV_WC_RECV)
			snprintf(lines[i], sizeof lines[i], " %d %u bytes%s", (int)wc.wr_id, wc.byte_len, wc.wc_flags & IBV_WC_WITH_IMM ? " and a word" : "");
	}
	qsort(lines, (size_t)count, sizeof *lines, (int (*)(const void *, const void *))strcmp);
	for (int i = 0; i < count; i++)
		printf("%s%s", i ? ";" : "", lines[i]);
	puts("");
}

static const char *name(int error) { return error == ENOMEM ? "ENOMEM" : error == EINVAL ? "EINVAL" : error ? "another error" : "taken"; }

static void states(void)
{
	struct ibv_qp *qp = create(IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .port_num = 1 };
	printf("RESET to RTS: %s\n", name(ibv_modify_qp(qp, &attr, IBV_QP_STATE)));
	attr.qp_state = IBV_QPS_INIT;
	printf("INIT without rights: %s\n", name(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)));
	attr.port_num = 2;
	printf("INIT at another port: %s\n",
	       name(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)));
	printf("send in RESET: %s\n", name(send(qp, 1, 8, IBV_WR_SEND, 0)));
	printf("receive in RESET: %s\n", name(receive(qp, 1, 8, mr)));
	ibv_destroy_qp(qp);
}

static void messages(void)
{
	struct ibv_qp *ends[2];
	struct ibv_wc wc;
	pair(ends, IBV_QPT_RC);
	for (int i = 0; i < 5; i++)
		printf("receive %d: %s\n", i, name(receive(ends[1], i, 1 << 16, mr)));
	send(ends[0], 10, 8, IBV_WR_SEND, 0);
	send(ends[0], 11, 5000, IBV_WR_SEND_WITH_IMM, 0);
	send(ends[0], 12, 60000, IBV_WR_SEND, IBV_SEND_FENCE);
	send(ends[0], 13, 100, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
	show("messages", 8);
	printf("inline write: %s\n", name(send(ends[0], 14, 33, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE)));
	receive(ends[1], 1, 8, mr);
	receive(ends[1], 2, 8, mr);
	send(ends[0], 15, 9, IBV_WR_SEND, 0);
	send(ends[0], 16, 8, IBV_WR_SEND, 0);
	show("too long", 4);
	send(ends[0], 17, 8, IBV_WR_SEND, 0);
	show("after that", 1);
	end(ends);
	pair(ends, IBV_QPT_RC);
	receive(ends[1], 1, 8, closed);
	send(ends[0], 2, 8, IBV_WR_SEND, 0);
	show("read-only receive", 2);
	end(ends);
	pair(ends, IBV_QPT_RC);
	send(ends[0], 1, 8, IBV_WR_RDMA_READ, 0);
	show("no right to read", 1);
	end(ends);
	reads = 0;
	pair(ends, IBV_QPT_RC);
	send(ends[0], 1, 8, IBV_WR_RDMA_READ, 0);
	show("no reads at all", 1);
	end(ends);
	pair(ends, IBV_QPT_UC);
	send(ends[0], 1, 8, IBV_WR_SEND, 0);
	show("lost", 1);
	/* It has arrived by then. */
	for (int i = 0; i < 100; i++)
		ibv_poll_cq(cq, 1, &wc);
	receive(ends[1], 2, 60000, mr);
	send(ends[0], 3, 60000, IBV_WR_SEND, 0);
	show("not lost", 2);
	end(ends);
	pair(ends, IBV_QPT_RC);
	ibv_destroy_qp(ends[1]);
	ends[1] = create(IBV_QPT_RC, NULL);
	send(ends[0], 1, 8, IBV_WR_SEND, 0);
	send(ends[0], 2, 8, IBV_WR_RDMA_WRITE, 0);
	show("nobody there", 2);
	end(ends);
}

static int is_told(void)
{
	struct pollfd one = { channel->fd, POLLIN, 0 };
	return poll(&one, 1, 0);
}

static void events(void)
{
	struct ibv_qp *ends[2];
	struct ibv_cq *of;
	void *mine;
	pair(ends, IBV_QPT_RC);
	receive(ends[1], 1, 8, mr);
	receive(ends[1], 2, 8, mr);
	ibv_req_notify_cq(cq, 1);
	send(ends[0], 3, 8, IBV_WR_SEND, 0);
	show("unsolicited", 2);
	printf("told: %d\n", is_told());
	send(ends[0], 4, 8, IBV_WR_SEND, IBV_SEND_SOLICITED);
	if (ibv_get_cq_event(channel, &of, &mine))
		exit(1);
	printf("told of the queue: %d\n", of == cq && mine == buffer);
	ibv_ack_cq_events(cq, 1);
	show("solicited", 2);
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	printf("once more: %d, told: %d\n", ibv_get_cq_event(channel, &of, &mine), is_told());
	end(ends);
}

static void shared(void)
{
	struct ibv_srq_init_attr how = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_srq *srq = ibv_create_srq(pd, &how);
	struct ibv_qp *ends[2] = { create(IBV_QPT_RC, NULL), create(IBV_QPT_RC, srq) };
	struct ibv_sge piece = { (uintptr_t)buffer[1], 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &piece, .num_sge = 1 }, *bad;
	struct ibv_async_event event;
	if (connect_to(ends[0], ends[1]) || connect_to(ends[1], ends[0]))
		exit(1);
	for (int i = 0; i < 5; i++)
		printf("shared receive: %s\n", name(ibv_post_srq_recv(srq, &wr, &bad)));
	/* What is refused changes nothing: the event comes. */
	printf("queue in use: %d\n", ibv_destroy_srq(srq) == EBUSY);
	ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT);
	for (int i = 0; i < 3; i++)
		send(ends[0], 2, 8, IBV_WR_SEND, 0);
	show("shared", 6);
	if (ibv_get_async_event(context, &event))
		exit(1);
	printf("%s of the queue: %d\n", ibv_event_type_str(event.event_type), event.element.srq == srq);
	ibv_ack_async_event(&event);
	end(ends);
	printf("queue not in use: %d\n", ibv_destroy_srq(srq));
}

int main(void)
{
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 64, buffer, channel, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	closed = ibv_reg_mr(pd, buffer, sizeof buffer, 0);
	ibv_query_port(context, 1, &port);
	states();
	messages();
	events();
	shared();
	printf("domain in use: %d\n", ibv_dealloc_pd(pd) == EBUSY);
	return 0;
}
