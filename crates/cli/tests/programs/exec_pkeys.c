/* The partitions that a port is in, and whether messages reach a peer: with the number of a key for each end, given as `KEY KEY [SERVER]`. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_port_attr port;

/* The index of a key, with either membership. */
static int index_of(int key)
{
	int full = ibv_get_pkey_index(context, 1, htons((uint16_t)(key | 0x8000)));
	return full >= 0 ? full : ibv_get_pkey_index(context, 1, htons((uint16_t)key));
}

static int ready(struct ibv_qp *qp, const uint32_t *peer, int key)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = (uint16_t)index_of(key) };
	int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer[1], .min_rnr_timer = 1,
				     .max_dest_rd_atomic = 1, .ah_attr = { .dlid = (uint16_t)peer[0], .port_num = 1 } };
	failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 1 };
	return failed | ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							 IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *to;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7000) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), client = argc > 3, key = (int)strtol(argv[1 + client], NULL, 16);
	if (client ? getaddrinfo(argv[3], "7000", &hints, &to) || connect(fd, to->ai_addr, to->ai_addrlen)
		   : bind(fd, (struct sockaddr *)&any, sizeof any) || listen(fd, 1) || (fd = accept(fd, NULL, NULL)) < 0)
		return perror("connect"), 1;
	context = ibv_open_device(*ibv_get_device_list(NULL));
	if (!context || ibv_query_port(context, 1, &port))
		return perror("ibv_open_device"), 1;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr none = { .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = port.pkey_tbl_len };
	if (!ibv_modify_qp(qp, &none, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		puts("an index behind the table");
	uint32_t own[2] = { port.lid, qp->qp_num }, peer[2];
	if (write(fd, own, sizeof own) != sizeof own || read(fd, peer, sizeof peer) != sizeof peer || ready(qp, peer, key))
		return perror("ready"), 1;
	struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive;
	if (ibv_post_recv(qp, &receive, &bad_receive) || write(fd, own, 1) != 1 || read(fd, peer, 1) != 1)
		return perror("ibv_post_recv"), 1;
	if (client) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
		struct ibv_wc wc;
		ibv_post_send(qp, &wr, &bad);
		while (!ibv_poll_cq(cq, 1, &wc))
			;
		for (int i = 0; i < port.pkey_tbl_len; i++) {
			uint16_t found;
			ibv_query_pkey(context, 1, i, &found);
			printf("%04x ", ntohs(found));
		}
		puts(ibv_wc_status_str(wc.status));
		return read(fd, peer, 0) != 0;
	}
	/* The server stays as long as its client. */
	return read(fd, peer, 1) != 0;
}
