/* Regions that requests name by other addresses than their own: what peers and the device itself reach by them, and what they do not. */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 16384, IOVA = 0x7000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_port_attr port;
static char near[SIZE], far[SIZE] __attribute__((aligned(8)));

static struct ibv_qp *create(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 2, 2, 0 }, .qp_type = IBV_QPT_RC };
	return ibv_create_qp(pd, &init);
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	int rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights };
	int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .min_rnr_timer = 1,
				     .max_dest_rd_atomic = 1, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 1 };
	failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						   IBV_QP_MAX_QP_RD_ATOMIC);
	if (failed)
		exit(1);
}

/* Carries a request of `local` out at `remote`, on a new connection; says how it ended. */
static void carry_out(const char *what, enum ibv_wr_opcode opcode, struct ibv_sge local, uint64_t remote, uint32_t rkey, struct ibv_sge into)
{
	struct ibv_qp *one = create(), *other = create();
	struct ibv_recv_wr receive = { .sg_list = &into, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &local, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	connect_to(one, other);
	connect_to(other, one);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	if (opcode == IBV_WR_SEND)
		ibv_post_recv(other, &receive, &bad_receive);
	ibv_post_send(one, &wr, &bad);
	do
		while (!ibv_poll_cq(cq, 1, &wc))
			;
	while (wc.wr_id != 1);
	printf("%s: %s\n", what, ibv_wc_status_str(wc.status));
	ibv_destroy_qp(one);
	ibv_destroy_qp(other);
	while (ibv_poll_cq(cq, 1, &wc))
		;
}

static struct ibv_sge piece(uint64_t addr, uint32_t length, const struct ibv_mr *mr) { return (struct ibv_sge){ addr, length, mr->lkey }; }

static void seen(const char *what, int right) { printf("%s: %s\n", what, right ? "right" : "wrong"); }

int main(void)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_sge none = { 0 };
	context = ibv_open_device(*ibv_get_device_list(NULL));
	ibv_query_port(context, 1, &port);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *local = ibv_reg_mr(pd, near, SIZE, all);
	struct ibv_mr *moved = ibv_reg_mr_iova(pd, far, SIZE, IOVA, all);
	if (!local || !moved)
		return perror("ibv_reg_mr_iova"), 1;
	seen("address of the region", moved->addr == far && moved->length == SIZE);

	for (int i = 0; i < SIZE; i++)
		near[i] = (char)(i * 7 + 1);
	carry_out("write", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 5000, local), IOVA + 100, moved->rkey, none);
	seen("written", !memcmp(far + 100, near, 5000) && !far[99] && !far[5100]);
	memset(near, 0, SIZE);
	carry_out("read", IBV_WR_RDMA_READ, piece((uintptr_t)near, 5000, local), IOVA + 100, moved->rkey, none);
	seen("read back", !memcmp(far + 100, near, 5000));
	carry_out("atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, piece((uintptr_t)near, 8, local), IOVA + 8, moved->rkey, none);
	seen("added", far[8] == 1 && !near[0]);
	carry_out("last byte", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), IOVA + SIZE - 1, moved->rkey, none);
	carry_out("byte behind", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), IOVA + SIZE, moved->rkey, none);
	carry_out("byte before", IBV_WR_RDMA_READ, piece((uintptr_t)near, 1, local), IOVA - 1, moved->rkey, none);
	carry_out("own address", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), (uintptr_t)far, moved->rkey, none);

	memset(far, 'x', SIZE);
	carry_out("local pieces", IBV_WR_SEND, piece(IOVA + 10, 50, moved), 0, 0, piece(IOVA + 200, 100, moved));
	seen("sent", far[199] == 'x' && far[200] == 'x' && far[249] == 'x');
	memset(far, 'y', 60);
	carry_out("local pieces", IBV_WR_SEND, piece(IOVA + 10, 50, moved), 0, 0, piece(IOVA + 200, 100, moved));
	seen("sent", far[199] == 'x' && far[200] == 'y' && far[249] == 'y' && far[250] == 'x');
	carry_out("piece behind", IBV_WR_SEND, piece(IOVA + SIZE - 10, 11, moved), 0, 0, piece(IOVA, 100, moved));
	carry_out("piece by own address", IBV_WR_SEND, piece((uintptr_t)far, 11, moved), 0, 0, piece(IOVA, 100, moved));

	/* Another range has its own address. */
	if (ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all & ~IBV_ACCESS_REMOTE_READ))
		return perror("ibv_rereg_mr"), 1;
	carry_out("other rights", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), IOVA, moved->rkey, none);
	if (ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, far, SIZE / 2, 0))
		return perror("ibv_rereg_mr"), 1;
	carry_out("other range", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), (uintptr_t)far, moved->rkey, none);
	carry_out("as before", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 1, local), IOVA, moved->rkey, none);
	ibv_dereg_mr(moved);

	struct ibv_mr *based = ibv_reg_mr(pd, far, SIZE, all | IBV_ACCESS_ZERO_BASED);
	memset(near, 'z', 10);
	carry_out("from zero on", IBV_WR_RDMA_WRITE, piece((uintptr_t)near, 10, local), 3, based->rkey, none);
	seen("written", far[2] != 'z' && far[3] == 'z' && far[12] == 'z' && far[13] != 'z');
	ibv_dereg_mr(based);

	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	if (!null)
		return perror("ibv_alloc_null_mr"), 0;
	memset(near, 'n', 64);
	carry_out("zeros sent", IBV_WR_SEND, piece(12345, 20, null), 0, 0, piece((uintptr_t)near, 64, local));
	seen("zeros", !near[0] && !near[19] && near[20] == 'n');
	carry_out("sent to nowhere", IBV_WR_SEND, piece((uintptr_t)near, 64, local), 0, 0, piece(0, 64, null));
	carry_out("read from nowhere", IBV_WR_RDMA_READ, piece((uintptr_t)near, 1, local), 0, null->rkey, none);
	return ibv_dereg_mr(null);
}
