/* Sends to a queue pair where nobody ever posts a receive: the receiver is not ready three times, and the fourth is the end. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	static char buffer[64];
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *ends[2] = { ibv_create_qp(pd, &init), ibv_create_qp(pd, &init) };
	struct ibv_port_attr port;
	ibv_query_port(context, 1, &port);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
		int failed = ibv_modify_qp(ends[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		attr = (struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = ends[1 - i]->qp_num,
			.min_rnr_timer = 12,
			.ah_attr = { .dlid = port.lid, .port_num = 1 },
		};
		failed |= ibv_modify_qp(ends[i], &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 3 };
		failed |= ibv_modify_qp(ends[i], &attr,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC);
		if (failed)
			return 1;
	}
	struct ibv_sge piece = { (uintptr_t)buffer, sizeof buffer, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	if (ibv_post_send(ends[0], &wr, &bad))
		return 1;
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	puts(ibv_wc_status_str(wc.status));
	return 0;
}
