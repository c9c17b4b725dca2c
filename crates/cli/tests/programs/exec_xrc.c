/* One connection to two processes of a host: each has a shared receive queue in the XRC domain of a file, and both have the receiving end open.
 * The one that made it leaves first. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct told {
	uint32_t lid, receiver, sender, srq[2], rkey;
	uint64_t address;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_port_attr port;
static char buffer[4096];

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static void open_all(void)
{
	context = ibv_open_device(*ibv_get_device_list(NULL));
	check(context && !ibv_query_port(context, 1, &port), "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(pd && cq && mr, "objects");
}

static int ready(struct ibv_qp *qp, uint32_t lid, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 1,
				     .max_dest_rd_atomic = 1, .ah_attr = { .dlid = (uint16_t)lid, .port_num = 1 } };
	failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return failed | ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							 IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_wc next(void)
{
	struct ibv_wc wc;
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc;
}

static struct ibv_xrcd *domain(int fd, int flags)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags };
	return ibv_open_xrcd(context, &init);
}

static struct ibv_srq *queue(struct ibv_xrcd *xrcd, uint32_t *number)
{
	struct ibv_srq_init_attr_ex init = { .attr = { 8, 1, 0 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
					     .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	check(srq && !ibv_get_srq_num(srq, number), "ibv_create_srq_ex");
	for (int i = 0; i < 4; i++) {
		struct ibv_sge piece = { (uintptr_t)buffer + 64 * i, 64, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &piece, .num_sge = 1 }, *bad;
		check(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
	}
	return srq;
}

static void received(const char *who)
{
	struct ibv_wc wc = next();
	printf("%s: %s \"%s\"\n", who, ibv_wc_status_str(wc.status), buffer + 64 * wc.wr_id);
	fflush(stdout);
}

static void all(int (*call)(int, void *, size_t), int fd, void *bytes, size_t size) { check(call(fd, bytes, size) == 0, "bytes"); }
static int put(int fd, void *bytes, size_t size) { return write(fd, bytes, size) != (ssize_t)size; }
static int get(int fd, void *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t came = read(fd, (char *)bytes + done, size - done);
		if (came <= 0)
			return 1;
		done += (size_t)came;
	}
	return 0;
}

/* The second process: opens the domain and the receiving end by its number. */
static int second(const char *file, int in, int out)
{
	uint32_t receiver, number;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	open_all();
	all(get, in, &receiver, sizeof receiver);
	int fd = open(file, O_RDONLY);
	struct ibv_xrcd *xrcd = domain(fd, 0);
	check(xrcd != NULL, "ibv_open_xrcd");
	check(!domain(fd, O_CREAT | O_EXCL), "one more");
	struct ibv_srq *srq = queue(xrcd, &number);
	struct ibv_qp_open_attr open_attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					      .qp_num = receiver + 1, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	check(!ibv_open_qp(context, &open_attr), "no such queue pair");
	open_attr.qp_num = receiver;
	struct ibv_qp *qp = ibv_open_qp(context, &open_attr);
	check(qp && !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS, "ibv_open_qp");
	all(put, out, &number, sizeof number);
	received("second");
	received("second");
	/* The first has gone: the file has a domain as long as this process has. */
	check(ibv_close_xrcd(xrcd) == EBUSY, "in use");
	check(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_close_xrcd(xrcd), "end");
	check(!domain(fd, 0) && errno == EAGAIN, "no domain");
	return 0;
}

static int server(int talk, const char *file)
{
	int to[2], from[2], fd = open(file, O_CREAT | O_RDWR, 0600);
	struct told own = { 0 }, peer;
	check(fd >= 0 && !pipe(to) && !pipe(from), file);
	pid_t child = fork();
	if (!child)
		exit(second(file, to[0], from[1]));
	open_all();
	struct ibv_xrcd *xrcd = domain(fd, O_CREAT);
	check(xrcd != NULL, "ibv_open_xrcd");
	struct ibv_srq *srq = queue(xrcd, &own.srq[0]);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	check(qp != NULL, "ibv_create_qp_ex");
	own.lid = port.lid;
	own.receiver = qp->qp_num;
	all(put, talk, &own, sizeof own);
	all(get, talk, &peer, sizeof peer);
	check(!ready(qp, peer.lid, peer.sender), "ready");
	all(put, to[1], &own.receiver, sizeof own.receiver);
	all(get, from[0], &own.srq[1], sizeof own.srq[1]);
	all(put, talk, &own, sizeof own);
	received("first");
	/* Without it the receiving end goes on. */
	check(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_close_xrcd(xrcd), "end of the first");
	all(put, talk, &own, sizeof own);
	int status;
	return waitpid(child, &status, 0) != child || status;
}

static void send_to(struct ibv_qp *qp, uint32_t srq, const char *text)
{
	struct ibv_sge piece = { (uintptr_t)buffer, 64, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = srq }, *bad;
	strcpy(buffer, text);
	check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	printf("sent: %s\n", ibv_wc_status_str(next().status));
	fflush(stdout);
}

static int client(int talk)
{
	struct told own = { 0 }, peer;
	open_all();
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .cap = { 4, 0, 1, 0, 0 }, .qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	check(qp != NULL, "ibv_create_qp_ex");
	own.lid = port.lid;
	own.sender = qp->qp_num;
	all(get, talk, &peer, sizeof peer);
	check(!ready(qp, peer.lid, peer.receiver), "ready");
	all(put, talk, &own, sizeof own);
	all(get, talk, &peer, sizeof peer);
	send_to(qp, peer.srq[1], "to the second");
	send_to(qp, peer.srq[0], "to the first");
	all(get, talk, &peer, sizeof peer);
	send_to(qp, peer.srq[1], "once more");
	return 0;
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *to;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7000) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (argc > 2) {
		check(!getaddrinfo(argv[2], "7000", &hints, &to) && !connect(fd, to->ai_addr, to->ai_addrlen), "connect");
		return client(fd);
	}
	check(!bind(fd, (struct sockaddr *)&any, sizeof any) && !listen(fd, 1), "listen");
	return server(accept(fd, NULL, NULL), argv[1]);
}
